"""Virtual memory management, on which expandable segments and XLA's allocator stand."""

from __future__ import annotations

import pytest

from gpuconf.simcard import Card
from tests.programs.card_clients import RunClient

pytestmark = pytest.mark.slow  # starts many programs

_FREE_MIB = 11264 - 1945
_INVALID_VALUE, _OUT_OF_MEMORY, _NOT_SUPPORTED = 1, 2, 801

_CALLS = """
import struct
size, long = ctypes.c_size_t, ctypes.c_uint64
DEVICE_0 = struct.pack("4iP8x", 1, 0, 1, 0, 0)
def create(bytes_, properties=DEVICE_0):
    handle = long()
    status = cuda.library.cuMemCreate(ctypes.byref(handle), size(bytes_), properties, long(0))
    return status, handle.value
def reserve(bytes_):
    address = long()
    wish = (size(0), long(0), long(0))
    assert cuda.library.cuMemAddressReserve(ctypes.byref(address), size(bytes_), *wish) == 0
    return address.value
def map_(address, bytes_, handle, offset=0):
    where = (long(address), size(bytes_), size(offset), long(handle), long(0))
    return cuda.library.cuMemMap(*where)
def unmap(address, bytes_): return cuda.library.cuMemUnmap(long(address), size(bytes_))
def release(handle): return cuda.library.cuMemRelease(long(handle))
def unreserve(address, bytes_): return cuda.library.cuMemAddressFree(long(address), size(bytes_))
def free(): return cuda.memory()[0] // MIB
cuda.enter()
"""


def _lines(card: Card, run_client: RunClient, code: str) -> list[str]:
    done = run_client(card, _CALLS + code)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_handle_holds_the_cards_memory_until_it_is_released_and_unmapped(
    card: Card, run_client: RunClient
) -> None:
    """Addresses cost nothing, a handle its bytes, once, however often it is mapped."""
    code = """
where = reserve(64 * MIB); print(free())
status, handle = create(8 * MIB); print(status, free())
print(map_(where, 8 * MIB, handle), map_(where + 8 * MIB, 8 * MIB, handle), free())
print(cuda.write(where, b"both"), cuda.read(where + 8 * MIB, 4))
print(release(handle), free(), release(handle))
print(unmap(where, 8 * MIB), free(), unmap(where + 8 * MIB, 8 * MIB), free())
print(unreserve(where, 64 * MIB), unreserve(where, 64 * MIB))
"""
    less = _FREE_MIB - 8
    assert _lines(card, run_client, code) == [
        f"{_FREE_MIB}",
        f"0 {less}",
        f"0 0 {less}",
        "0 b'both'",
        f"0 {less} {_INVALID_VALUE}",
        f"0 {less} 0 {_FREE_MIB}",
        f"0 {_INVALID_VALUE}",
    ]


def test_pieces_that_adjoin_are_one_memory(card: Card, run_client: RunClient) -> None:
    """A copy goes across them and stops at the first gap; they are unmapped together."""
    code = """
where = reserve(8 * MIB)
first, second = create(2 * MIB)[1], create(2 * MIB)[1]
print(map_(where, 2 * MIB, first), cuda.write(where + 2 * MIB - 2, b"four"))
print(map_(where + 2 * MIB, 2 * MIB, second), cuda.write(where + 2 * MIB - 2, b"four"))
print(cuda.read(where + 2 * MIB - 2, 4), cuda.write(where + 4 * MIB - 2, b"four"))
print(unmap(where, 3 * MIB), unmap(where, 6 * MIB), unmap(where, 4 * MIB))
print(cuda.write(where, b"gone"))
"""
    assert _lines(card, run_client, code) == [
        f"0 {_INVALID_VALUE}",
        "0 0",
        f"b'four' {_INVALID_VALUE}",
        f"{_INVALID_VALUE} {_INVALID_VALUE} 0",
        f"{_INVALID_VALUE}",
    ]


def test_what_the_driver_refuses_is_refused(card: Card, run_client: RunClient) -> None:
    """Sizes off the granularity, more than is free, another kind of memory, a wrong place."""
    code = """
ON_HOST = struct.pack("4iP8x", 1, 0, 2, 0, 0)
print(create(MIB)[0], create((free() // 2 * 2 + 2) * MIB)[0], create(2 * MIB, ON_HOST)[0])
where, (_, handle) = reserve(4 * MIB), create(2 * MIB)
print(map_(where, 4 * MIB, handle), map_(where, 2 * MIB, handle, 2 * MIB))
print(map_(where + 4 * MIB, 2 * MIB, handle), map_(where, 2 * MIB, handle + 16))
print(map_(where, 2 * MIB, handle), map_(where, 2 * MIB, handle))
print(unreserve(where, 2 * MIB), free())
"""
    assert _lines(card, run_client, code) == [
        f"{_INVALID_VALUE} {_OUT_OF_MEMORY} {_NOT_SUPPORTED}",
        f"{_INVALID_VALUE} {_INVALID_VALUE}",
        f"{_INVALID_VALUE} {_INVALID_VALUE}",
        f"0 {_INVALID_VALUE}",
        f"{_INVALID_VALUE} {_FREE_MIB - 2}",
    ]


def test_a_reset_takes_mappings_too(card: Card, run_client: RunClient) -> None:
    """After it the GPU has the memory back, and the old handle and mapping are unknown."""
    code = """
where, (_, handle) = reserve(2 * MIB), create(2 * MIB)
map_(where, 2 * MIB, handle); cuda.allocate(5 * MIB)
print(free(), cuda.library.cuDevicePrimaryCtxReset_v2(0))
cuda.enter()
print(free(), release(handle), unmap(where, 2 * MIB), cuda.write(where, b"x"))
_, again = create(2 * MIB)
print(map_(where, 2 * MIB, again), cuda.read(where, 2), unmap(where, 2 * MIB), release(again))
print(free(), unreserve(where, 2 * MIB))
"""
    assert _lines(card, run_client, code) == [
        f"{_FREE_MIB - 7} 0",
        f"{_FREE_MIB} {_INVALID_VALUE} {_INVALID_VALUE} {_INVALID_VALUE}",
        r"0 b'\x00\x00' 0 0",
        f"{_FREE_MIB} 0",
    ]


def test_looking_up_an_allocation_does_not_go_through_all(
    card: Card, run_client: RunClient
) -> None:
    """Among 50,000 a look-up makes at most as many comparisons as a balanced tree is deep."""
    code = """
count = 50_000
addresses = [cuda.allocate(4096)[1] for _ in range(count)]
compared = lambda: ctypes.c_ulong(cuda.library.gpuconf_comparisons()).value
cuda.library.gpuconf_comparisons.restype = ctypes.c_ulong
before = compared()
assert all(cuda.write(address + 4095, b"x") == 0 for address in addresses[::100])
each = (compared() - before) / (count / 100)
assert all(cuda.free(address) == 0 for address in addresses)
print(0 < each < 40, cuda.memory()[0] // MIB)
"""
    assert _lines(card, run_client, code) == [f"True {_FREE_MIB}"]


def test_what_the_driver_lacks_says_so_by_name(card: Card, run_client: RunClient) -> None:
    """Pools, graphs, IPC and handles for other processes: each name once, each an error."""
    names = [
        "cuMemAllocAsync",
        "cuGraphCreate",
        "cuIpcGetMemHandle",
        "cuMemExportToShareableHandle",
        "cuMulticastCreate",
    ]
    code = f"print({{cuda.library[name]() for name in {names!r} for _ in range(2)}})"
    done = run_client(card, code)
    assert done.stdout == f"{{{_NOT_SUPPORTED}}}\n"
    assert done.stderr.splitlines() == [
        f"gpuconf simulated GPU: no {name} here, it returns an error" for name in names
    ]
