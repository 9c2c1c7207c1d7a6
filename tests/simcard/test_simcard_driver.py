"""The stand-in CUDA driver, through ctypes: what it shows, and the memory it keeps account of."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from gpuconf.basics.units import MIB
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.machine.cards.visible_devices import resolve
from gpuconf.simcard import Card, CardSpec, simulated_card
from tests.machine.cards.spellings import SPELLINGS, spelled
from tests.programs.card_clients import RunClient, StartClient, wait_until
from tests.programs.processes import Program, run_with

pytestmark = pytest.mark.slow  # starts many programs

FREE = (11264 - 1945) * MIB
TAKE_AND_WAIT = "cuda.enter(); cuda.allocate({mib} * MIB); print('ready', flush=True); input()"
NO_DEVICE, OUT_OF_MEMORY = 100, 2


def _take(start_client: StartClient, card: Card, mib: int) -> Program:
    child = start_client(card, TAKE_AND_WAIT.format(mib=mib))
    assert child.read_line() == "ready"
    return child


# What a child of the program that has started CUDA with each value is shown.
VISIBLE = """
import json, os, sys
from tests.programs.cuda_client import Cuda
for value in json.loads(sys.argv[1]):
    if os.fork() == 0:
        if value is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = value
        cuda = Cuda()
        uuids = [cuda.uuid(index) for index in range(cuda.count())]
        print(json.dumps([value, cuda.started, uuids]), flush=True)
        os._exit(0)
    os.wait()
"""


def test_cuda_visible_devices(two_cards: Card) -> None:
    """A repeat empties the list, an invalid entry ends it, prefixes must be unique.

    Each spelling shows what `resolve` says, as a real GPU does: test_hardware_on_gpu.
    """
    gpus = tuple(Gpu(index, two_cards.uuid(index), "a GPU") for index in (0, 1))
    spellings = [spelled(each, gpus[1].uuid or "") for each in SPELLINGS["real GPU"]]
    spellings += [value for value, _ in SPELLINGS["four GPUs"]]
    spellings += ["GPU-01,GPU-00", "GPU-01,GPU-0151", "1,GPU-00"]
    environ = two_cards.environment(os.environ)
    environ.pop("CUDA_VISIBLE_DEVICES", None)
    done = run_with([sys.executable, "-c", VISIBLE, json.dumps(spellings)], environ)
    expected: list[tuple[str | None, int, list[str | None]]] = []
    for value in spellings:
        seen = resolve(value, gpus, device_order="PCI_BUS_ID").devices
        expected.append((value, 0 if seen else NO_DEVICE, [gpu.uuid for gpu in seen]))
    assert [tuple(json.loads(line)) for line in done.stdout.splitlines()] == expected, done.stderr
    assert max(len(uuids) for _, _, uuids in expected) == 2


def test_a_killed_process_gives_its_memory_back(card: Card, start_client: StartClient) -> None:
    """Also while it is a zombie: its pid is still there, its memory is not."""
    child = _take(start_client, card, 1000)
    assert card.used_bytes() == 2945 * MIB
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert (card.used_bytes(), card.processes()) == (1945 * MIB, ())


def test_a_pid_used_again_is_another_process(card: Card, start_client: StartClient) -> None:
    """A slot belongs to a pid *and* its start: here the start is made wrong by hand."""
    child = _take(start_client, card, 1000)
    data = bytearray(card.path.read_bytes())
    slot = data.index(child.pid.to_bytes(4, "little") + bytes(4))
    data[slot + 8] ^= 1
    with open(card.path, "r+b") as file:
        file.write(data)
    assert card.used_bytes() == 1945 * MIB


@pytest.mark.slow
def test_twenty_starts_leave_no_slot(card: Card, run_client: RunClient) -> None:
    """Processes that end without freeing anything do not fill the GPU."""
    for _ in range(20):
        assert run_client(card, "cuda.enter(); print(cuda.allocate(9000 * MIB)[0])").stdout == "0\n"
    assert (card.used_bytes(), card.processes()) == (1945 * MIB, ())


@pytest.mark.slow
def test_a_killed_holder_of_the_lock_stops_nobody(card: Card, start_client: StartClient) -> None:
    """Processes killed at random moments of allocating neither block the GPU nor leak."""
    code = "cuda.enter()\nwhile True: cuda.free(cuda.allocate(MIB)[1])"
    for _ in range(15):
        child = start_client(card, code)
        wait_until(lambda: bool(card.processes()))
        child.kill()
        child.wait()
        assert card.used_bytes() == 1945 * MIB


def test_concurrent_allocations_conserve_bytes(card: Card, start_client: StartClient) -> None:
    """Four processes that take all they can get share exactly what was free."""
    code = """
cuda.enter()
print('ready', flush=True); input()
taken = 0
while cuda.allocate(7 * MIB)[0] == 0: taken += 7 * MIB
print(taken, flush=True); input()
"""
    children = [start_client(card, code) for _ in range(4)]
    assert [child.read_line() for child in children] == ["ready"] * 4
    for child in children:
        child.write_line()
    taken = [int(child.read_line()) for child in children]
    assert sum(taken) == FREE // (7 * MIB) * 7 * MIB
    assert card.used_bytes() == 1945 * MIB + sum(taken)
    assert {each.used_bytes for each in card.processes()} == set(taken)


def test_a_context_can_cost_memory(libraries: object, run_client: RunClient) -> None:  # noqa: ARG001
    """The spec's context counts once per process; the variable overrides it."""
    spec = CardSpec(total_bytes=1000 * MIB, context_bytes=300 * MIB)
    code = "cuda.enter(); cuda.enter(); print(cuda.memory()[0] // MIB)"
    with simulated_card(spec) as card:
        assert run_client(card, code).stdout == "700\n"
        assert run_client(card, code, GPUCONF_SIMCARD_CONTEXT_MIB="10").stdout == "990\n"
        full = run_client(card, "print(cuda.enter())", GPUCONF_SIMCARD_CONTEXT_MIB="1001")
        assert full.stdout == f"{OUT_OF_MEMORY}\n"


def test_no_card_file_is_no_gpu_and_says_so(card: Card, run_client: RunClient) -> None:
    """Without a card file, or with a wrong one, there is no device, and stderr tells why."""
    for value, said in (("", "is not set"), ("/nowhere", "No such file"), (__file__, "no GPU")):
        done = run_client(card, "print(cuda.started)", GPUCONF_SIMCARD_FILE=value)
        assert done.stdout == f"{NO_DEVICE}\n"
        assert said in done.stderr
