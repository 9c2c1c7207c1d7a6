"""The simulated GPU in a process that runs out of something else: descriptors, address space."""

from __future__ import annotations

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card
from tests.programs.card_clients import RunClient, StartClient

FREE_MIB = 11264 - 1945
OUT_OF_MEMORY, ALREADY_REGISTERED = 2, 712


def test_memory_stays_accounted_without_descriptors(
    card: Card, start_client: StartClient, run_client: RunClient
) -> None:
    """A process that can open no file keeps its own memory, and judges nobody else dead."""
    other = start_client(
        card, "cuda.enter(); cuda.allocate(500 * MIB); print(1, flush=True); input()"
    )
    assert other.read_line() == "1"
    code = """
cuda.enter()
first = cuda.allocate(1000 * MIB)[1]
before = open_no_more()
seen = [cuda.memory()[0] // MIB]
status, second = cuda.allocate(200 * MIB)
seen += [status, cuda.memory()[0] // MIB]
cuda.free(first)
seen.append(cuda.memory()[0] // MIB)
open_no_more(before)
seen.append(cuda.memory()[0] // MIB)
print(seen, cuda.free(second), cuda.memory()[0] // MIB)
"""
    free = FREE_MIB - 500
    expected = [free - 1000, 0, free - 1200, free - 200, free - 200]
    done = run_client(card, code)
    assert done.stdout == f"{expected} 0 {free}\n", done.stderr
    held = [(each.pid, each.used_bytes) for each in card.processes()]
    assert held == [(other.pid, 500 * MIB)]


def test_the_card_shows_a_process_without_descriptors(
    card: Card, start_client: StartClient
) -> None:
    """Others see what such a process holds, to the byte, before and after it frees some."""
    code = """
cuda.enter()
first = cuda.allocate(1000 * MIB)[1]
open_no_more()
cuda.allocate(30 * MIB)
print('held', flush=True); input()
cuda.free(first)
print('freed', flush=True); input()
"""
    child = start_client(card, code)
    for word, held_mib in (("held", 1030), ("freed", 30)):
        assert child.read_line() == word
        assert [each.used_bytes for each in card.processes()] == [held_mib * MIB]
        assert card.used_bytes() == (1945 + held_mib) * MIB
        child.write_line()


def test_no_context_for_a_process_that_cannot_tell_its_start(
    card: Card, run_client: RunClient
) -> None:
    """It is refused and told why; a slot without a start would look dead to everybody else."""
    code = """
before = open_no_more()
refused = cuda.enter()
open_no_more(before)
print(refused, cuda.enter(), cuda.allocate(MIB)[0], cuda.memory()[0] // MIB)
"""
    done = run_client(card, code)
    assert done.stdout == f"{OUT_OF_MEMORY} 0 0 {FREE_MIB - 1}\n", done.stderr
    assert "cannot read its own /proc/" in done.stderr
    assert "Too many open files" in done.stderr


@pytest.mark.parametrize(
    ("offset", "size", "answer"),
    [(0, 4096, ALREADY_REGISTERED), (4095, 1, ALREADY_REGISTERED), (4096, 4096, 0)],
)
def test_host_memory_is_registered_once(
    card: Card, run_client: RunClient, offset: int, size: int, answer: int
) -> None:
    """A range that overlaps a registered one is refused, its neighbor and a later try are not."""
    code = f"""
cuda.enter()
memory = (ctypes.c_char * 8192)()
def register(offset, size):
    where = ctypes.c_void_p(ctypes.addressof(memory) + offset)
    return cuda.library.cuMemHostRegister_v2(where, ctypes.c_size_t(size), 0)
print(register(0, 4096), register({offset}, {size}))
print(cuda.library.cuMemHostUnregister(ctypes.byref(memory)), register(0, 4096))
"""
    done = run_client(card, code)
    assert done.stdout == f"0 {answer}\n0 0\n", done.stderr


def test_refused_host_memory_is_not_kept(card: Card, run_client: RunClient) -> None:
    """Where the table of allocations cannot grow, the mapping made for the entry goes too."""
    code = """
import mmap
cuda.enter()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def allocate(size):
    return cuda.library.cuMemHostAlloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size), 0)
def mapped():
    with open('/proc/self/statm') as file:
        return int(file.read().split()[0]) * resource.getpagesize()
room = mmap.mmap(-1, MIB)
before = mapped()
resource.setrlimit(resource.RLIMIT_AS, (before, resource.RLIM_INFINITY))
for size in (4096, 64, 56, 48, 40, 32, 24):
    while libc.malloc(size):
        pass
room.close()  # what is free now is as large as the memory, without room for its entry
refused = allocate(MIB)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(refused, mapped() < before - MIB // 2, allocate(MIB))
"""
    done = run_client(card, code)
    assert done.stdout == f"{OUT_OF_MEMORY} True 0\n", done.stderr
