"""Take what a plan reserves, so that no other process can use it.

A lease keeps later processes from planning with that memory.  Only memory in the framework's own
pool also keeps earlier ones from growing into it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import debug
from gpuconf.basics.units import MIB, sized


def take(
    device: str,
    sizes: Iterable[int],
    allocate: Callable[[int], object],
    record: Callable[[Setting], None],
) -> None:
    """Call ``allocate`` with each of ``sizes``, and record whether the memory was there.

    If it was not, the process has its reserve as a lease only.  In a rehearsal nothing is taken,
    because what the program itself needs is measured.
    """
    if os.environ.get("GPUCONF_REHEARSAL"):
        return
    sizes, why = tuple(sizes), None
    wanted = sized(sum(sizes))
    try:
        for size in sizes:
            allocate(size)
    except Exception as error:  # the program itself may need no more than is left
        why = str(error).partition("\n")[0]
    if sizes:
        setting = Setting(f"reserve of {device}", wanted, None if why else wanted, why)
        debug(str(setting))
        record(setting)


def region_sizes(size_bytes: int) -> list[int]:
    """Return requests, smallest first, for which the BFC allocator takes ``size_bytes`` in total.

    TensorFlow's and XLA's allocator takes memory in regions of a power of two, from 2 MiB up.
    """
    bits = range((2 * MIB).bit_length() - 1, size_bytes.bit_length())
    return [1 << bit for bit in bits if size_bytes >> bit & 1]
