"""What is requested from an allocator so that its pool is as large as the reserve."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuconf.backends.reserve import region_sizes, take
from gpuconf.basics.setting import Setting
from gpuconf.basics.units import MIB


@given(st.integers(0, 200 << 30))
def test_regions_of_the_bfc_allocator(size: int) -> None:
    """It doubles a region's size until the request fits, so the pool is ``size``, less 2 MiB."""
    region = 2 * MIB
    pool = 0
    for request in region_sizes(size):
        while region < request:
            region *= 2
        pool += region
    assert size - 2 * MIB < pool <= size


def test_memory_that_is_not_there_is_recorded() -> None:
    """The error ends there, and the outcome has its first line."""
    settings: list[Setting] = []
    take("GPU:0", [MIB], lambda _: 1 // 0, settings.append)
    take("GPU:1", [], lambda _: 1 // 0, settings.append)
    assert [str(each) for each in settings] == [
        "reserve of GPU:0: requested 1 MiB, got nothing: integer division or modulo by zero"
    ]
