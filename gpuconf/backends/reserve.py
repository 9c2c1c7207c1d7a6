"""Allocate what a plan reserves, so that no other process can use it.

A lease keeps later processes from including that memory in their plans. Only memory in the
framework's own pool also keeps earlier processes from growing into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import debug
from gpuconf.basics.units import MIB, sized

# A framework may have allocated one before the reserve.
FIRST_REGION_BYTES = 2 * MIB


def take(
    device: str,
    sizes: Iterable[int],
    allocate: Callable[[int], object],
    record: Callable[[Setting], None],
    *,
    why_not: str | None = None,
) -> None:
    """Call ``allocate`` with each of ``sizes``, and record whether the memory was available.

    If it was not, or if ``why_not`` gives a reason, the reserve is only a lease.
    """
    sizes, why = tuple(sizes), why_not
    wanted = sized(sum(sizes))
    try:
        for size in sizes if why is None else ():
            allocate(size)
    except Exception as error:  # the program itself may need no more than is left
        why = str(error).partition("\n")[0]
    if sizes:
        setting = Setting(f"reserve of {device}", wanted, None if why else wanted, why)
        debug(str(setting))
        record(setting)


def region_sizes(size_bytes: int) -> list[int]:
    """Return requests, smallest first, for which the BFC allocator takes ``size_bytes`` in total.

    TensorFlow's and XLA's allocator takes memory in regions whose size is a power of two, from 2
    MiB up.
    """
    bits = range(FIRST_REGION_BYTES.bit_length() - 1, max(0, size_bytes).bit_length())
    return [1 << bit for bit in bits if size_bytes >> bit & 1]
