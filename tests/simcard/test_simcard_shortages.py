"""The simulated GPU in a process that runs out of something else: descriptors, address space."""

from __future__ import annotations

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card
from tests.programs.card_clients import RunClient, StartClient

FREE_MIB = 11264 - 1945


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
