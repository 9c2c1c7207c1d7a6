"""`read_inventory` with the real nvidia-ml-py over a compiled stand-in for NVIDIA's library."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.machine.cards.inventory import Gpu, GpuProcess, Inventory, ProblemCode
from gpuconf.machine.cards.nvml import read_inventory
from gpuconf.machine.host_memory import installed_bytes, total_bytes
from tests.machine.cards import standin
from tests.programs.processes import Nvml

pytestmark = pytest.mark.slow  # starts many programs

Read = Callable[..., Inventory]
DESKTOPS = (
    GpuProcess(4242, 2 * GIB, "python3", "compute"),
    GpuProcess(900, 600 * MIB, "/usr/lib/xorg/Xorg", "graphics"),
)

_PROGRAM = """
import pickle, sys
from gpuconf.machine.cards.nvml import read_inventory
from gpuconf.machine.host_memory import installed_bytes, total_bytes
inventory = read_inventory(processes={processes})
sys.stdout.buffer.write(pickle.dumps(inventory))
"""


def _run(environment: dict[str, str], program: str) -> bytes:
    command = [sys.executable, "-c", program]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, env=environment, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def read(nvml: Nvml) -> Read:
    """Reads the inventory of a scenario in its own process, once for all tests."""

    @cache
    def _read(scenario: str | standin.Machine, *, processes: bool = True) -> Inventory:
        inventory = pickle.loads(_run(nvml(scenario), _PROGRAM.format(processes=processes)))
        assert isinstance(inventory, Inventory)
        return inventory

    return _read


@pytest.mark.parametrize(
    ("scenario", "code", "words"),
    [
        ("no_library", "no_library", "cannot load"),
        ("driver_not_loaded", "not_loaded", "not loaded"),
        ("version_mismatch", "mismatch", "version mismatch"),
        ("no_permission", "no_permission", "this user has no permission to use NVML"),
        ("driver_r390", "too_old", "too old"),
        ("unheard_of_error", "other", "NVML failed to start"),
        ("uncounted", "other", "the number of GPUs"),
    ],
)
def test_a_machine_that_cannot_be_asked_is_a_code_and_a_sentence(
    scenario: str, code: ProblemCode, words: str, read: Read
) -> None:
    """Where NVML cannot be asked there are no GPUs, code and sentence say why, nothing raises."""
    inventory = read(scenario)
    assert inventory._replace(problem=None) == Inventory(problem_code=code)
    assert inventory.problem is not None
    assert words in inventory.problem
    assert "\n" not in inventory.problem


def test_a_machine_without_cards_has_no_problem(read: Read) -> None:
    """A driver that counts no GPU has been asked: that is an answer."""
    assert read("no_cards") == Inventory((), "570.86.15", (12, 8))
    assert read("driver_r440").cuda_version == (10, 2)


def test_a_desktop_card_is_read_whole(read: Read) -> None:
    """Every field comes from its own question, sizes in bytes, and texts are str."""
    assert read("desktop").gpus == (
        Gpu(
            index=0,
            uuid=standin.uuid(0),
            name="NVIDIA GeForce RTX 3060",
            total_bytes=12 * GIB - 200 * MIB,
            free_bytes=9 * GIB - 200 * MIB,
            used_bytes=3 * GIB,
            compute_capability=(8, 6),
            display_active=True,
            pci_bus_id="00000000:01:00.0",
            mig_enabled=None,
            is_exclusive=False,
            processes=DESKTOPS,
        ),
    )


LISTED: dict[str, dict[str, object]] = {
    "exclusive": {"is_exclusive": True},
    "prohibited": {"is_exclusive": False},
    "process_memory_unknown": {"processes": (GpuProcess(4242, None, "python3"),)},
    "process_names_hidden": {"processes": (GpuProcess(4243, GIB, None),)},
    "odd_names": {"processes": (GpuProcess(7, GIB, None),)},
    "mps": {"processes": (GpuProcess(8, GIB, "worker"),)},
    "mig_empty": {"mig_enabled": True, "mig_instances": ()},
    "mig_off": {"mig_enabled": False, "mig_instances": ()},
    "wsl2": {"used_bytes": 2 * GIB, "processes": None, "display_active": None},
    "driver_r440": {"free_bytes": 9 * GIB - 200 * MIB, "processes": None, "mig_enabled": None},
    "driver_r470": {
        "total_bytes": 12 * GIB,
        "used_bytes": 3 * GIB + 200 * MIB,
        "free_bytes": 9 * GIB - 200 * MIB,
        "processes": DESKTOPS,
    },
}


@pytest.mark.parametrize("scenario", LISTED)
def test_what_a_card_tells(scenario: str, read: Read) -> None:
    """A GPU that takes one process says so, and one that takes none is not exclusive.

    NVML's NOT_AVAILABLE is not 16 EiB; a hidden name, and one that is no text, are None; clients of
    MPS, which are in a list of their own, are listed.  MIG that is on with nothing cut, or off, has
    no instances.  Under WSL2 and before R450 some is unknown; before R510, which lacks the second
    memory query, total and used include the driver's reserve.
    """
    (gpu,) = read(scenario).gpus
    assert {name: getattr(gpu, name) for name in LISTED[scenario]} == LISTED[scenario]


@pytest.mark.parametrize(("scenario", "count"), [("two_cards", 2), ("eight_cards", 8)])
def test_cards_stand_in_nvml_order(scenario: str, count: int, read: Read) -> None:
    """The place of a GPU in the list is its index, each has its own UUID, and nobody is on one.

    That is known, unlike where nothing is known of the GPU.
    """
    gpus = read(scenario).gpus
    assert [gpu.index for gpu in gpus] == list(range(count))
    assert [gpu.uuid for gpu in gpus] == [standin.uuid(place) for place in range(count)]
    assert {gpu.processes for gpu in gpus} == {()}


HOST = total_bytes() or 0
SHARED = standin.Card(standin.uuid(0), total=installed_bytes() or 0, reserved=0, used=HOST // 2)
ANSWERED = {
    "the host's total": SHARED,
    "another total": SHARED._replace(name="NVIDIA GB10", total=HOST // 2, used=HOST // 2),
}


@pytest.mark.parametrize("scenario", ["unified_memory", "zero_memory", *ANSWERED])
def test_unified_memory_is_the_hosts(scenario: str, read: Read) -> None:
    """A GB10's "not supported", a Jetson's 0 bytes, a driver that counts the page cache as used."""
    card = ANSWERED.get(scenario)
    (gpu,) = read(scenario if card is None else standin.Machine((card,))).gpus
    assert gpu.is_unified
    assert gpu.total_bytes == HOST
    assert gpu.free_bytes is not None
    assert 0 < gpu.free_bytes < gpu.total_bytes
    assert gpu.used_bytes is None  # the host's, and no GPU process accounts for it


def test_the_memory_of_a_lost_gpu_is_not_the_hosts(read: Read) -> None:
    """Only "not supported" and 0 bytes mean that the GPU has none of its own."""
    sound, lost = read("dying_card").gpus
    assert (sound.is_unified, lost.is_unified, lost.total_bytes) == (False, False, None)


def test_processes_can_be_left_out(read: Read) -> None:
    """With processes=False they are unknown, not an empty list, and the rest is the same."""
    (with_processes,), (without,) = read("desktop").gpus, read("desktop", processes=False).gpus
    assert without == with_processes._replace(processes=None)


@pytest.mark.parametrize(
    ("scenario", "lost"), [("lost_card", 1), ("dying_card", 1), ("card_forbidden", 0)]
)
def test_a_card_that_cannot_be_asked_stays_in_the_list(
    scenario: str, lost: int, read: Read
) -> None:
    """A lost or forbidden GPU keeps its place with unknown fields; its neighbors are whole."""
    for gpu in read(scenario).gpus:
        assert (gpu == Gpu(gpu.index)) == (gpu.index == lost)
        assert (gpu.total_bytes is None) == (gpu.index == lost)


def test_mig_instances_are_listed_under_their_card(read: Read) -> None:
    """Each instance has its own UUID and memory, its ids, and the GPU's index."""
    card, whole = read("mig").gpus
    assert card.mig_enabled
    assert not whole.mig_enabled
    facts = [
        (part.index, part.uuid, part.total_bytes, part.used_bytes, part.mig_ids)
        for part in card.mig_instances
    ]
    assert facts == [
        (0, standin.mig_uuid(0, 0), 20 * GIB, GIB, (1, 0)),
        (0, standin.mig_uuid(0, 1), 10 * GIB, 0, (5, 0)),
        (0, standin.mig_uuid(0, 2), 10 * GIB, 0, (5, 1)),
    ]
    assert {part.pci_bus_id for part in card.mig_instances} == {card.pci_bus_id}
    assert {part.compute_capability for part in card.mig_instances} == {(8, 0)}


@pytest.mark.parametrize("scenario", ["desktop", "uncounted", "dying_card", "mig"])
def test_nvml_is_shut_down(scenario: str, nvml: Nvml, tmp_path: Path) -> None:
    """Whatever the answers, NVML is started once and shut down once."""
    log = tmp_path / "log"
    _run(nvml(scenario, log=log), _PROGRAM.format(processes=True))
    assert log.read_text().split() == ["init", "shutdown"]


def test_who_holds_memory_is_asked_before_how_much_is_free(nvml: Nvml, tmp_path: Path) -> None:
    """On every GPU and MIG instance; the other order leaves used memory that nobody holds.

    And after it as well: what a holder gives back in between would be free and its own at once.
    """
    call_log = tmp_path / "calls"
    for scenario in ("two_cards", "mig"):
        _run(nvml(scenario, call_log=call_log), _PROGRAM.format(processes=True))
        calls = call_log.read_text().split()
        runs = [call for place, call in enumerate(calls) if calls[place - 1 : place] != [call]]
        devices = runs.count("processes")
        # Between two devices the last question of one and the first of the next are one run.
        assert runs == ["memory", *["processes", "memory"] * devices]
        assert devices >= 2
        call_log.unlink()


def test_a_name_that_commands_a_terminal_is_shown_as_an_escape(read: Read) -> None:
    """A process names itself: ESC sequences in it must not reach anybody's terminal."""
    held = standin.Process(7, "compute", GIB, "py\x1b[2J\x07")
    card = standin.Card(standin.uuid(0), name="NVIDIA\x1b[0m", processes=(held,))
    (gpu,) = read(standin.Machine((card,))).gpus
    assert gpu.name == r"NVIDIA\x1b[0m"
    assert gpu.processes == (GpuProcess(7, GIB, r"py\x1b[2J\x07"),)


def test_a_missing_binding_is_a_sentence() -> None:
    """Without nvidia-ml-py the sentence names the package to install."""
    program = "import sys; sys.modules['pynvml'] = None" + _PROGRAM.format(processes=True)
    inventory = pickle.loads(_run({}, program))
    assert "nvidia-ml-py" in inventory.problem
    assert "is not installed" in inventory.problem


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import no_such_module_at_all", "cannot be imported"),
        ("print 'for Python 2'", "broken (SyntaxError"),
        ("raise RuntimeError('no driver')", "broken (RuntimeError: no driver)"),
        ("def nvmlInit(): pass", "has no NVMLError"),
    ],
)
def test_a_lookalike_binding_is_a_sentence(source: str, words: str, tmp_path: Path) -> None:
    """Another package called pynvml is named as what it is, however it fails."""
    (tmp_path / "pynvml.py").write_text(source)
    program = _PROGRAM.format(processes=True)
    inventory = pickle.loads(_run({"PYTHONPATH": str(tmp_path)}, program))
    assert inventory._replace(problem=None) == Inventory(problem_code="no_binding")
    assert words in inventory.problem
    assert "nvidia-ml-py" in inventory.problem


def _old_binding() -> ModuleType:
    """As nvidia-ml-py3 of 2019: bytes for texts, and few functions."""
    module = ModuleType("pynvml")
    names = {
        "NVMLError": type("NVMLError", (Exception,), {}),
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: f"handle {index}",
        "nvmlDeviceGetName": lambda _handle: b"Tesla P100",
        "nvmlSystemGetDriverVersion": lambda: b"410.48",
    }
    vars(module).update(names)
    return module


def test_an_old_binding_is_used_as_far_as_it_goes() -> None:
    """Bytes become str, and functions the binding lacks are unknown fields."""
    inventory = read_inventory(nvml=_old_binding())
    assert inventory == Inventory((Gpu(0, name="Tesla P100"),), driver_version="410.48")


COMPUTES = (standin.Process(7, used_bytes=GIB, busy=35), standin.Process(8, used_bytes=GIB))
UNLISTED = standin.Process(9, "server", busy=5)
BUSY_CARD = standin.Card(standin.uuid(0), busy=40, processes=COMPUTES)


@pytest.mark.parametrize(
    ("card", "busy", "of_processes"),
    [
        (BUSY_CARD, 40, [35, 0]),
        (BUSY_CARD._replace(busy=0, processes=COMPUTES[1:]), 0, [0]),
        (BUSY_CARD._replace(busy=40, processes=COMPUTES[1:]), 40, [None]),  # somebody else
        (BUSY_CARD._replace(processes=(*COMPUTES, UNLISTED)), 40, [None, None]),
        (BUSY_CARD._replace(processes=(COMPUTES[0]._replace(busy=2**31 - 1),)), 40, [None]),
        (BUSY_CARD._replace(busy_process_code=standin.NOT_SUPPORTED), 40, [None, None]),
        (BUSY_CARD._replace(busy=-1), None, [None, None]),
        (BUSY_CARD._replace(handle_code=standin.NO_PERMISSION), None, None),
        (BUSY_CARD._replace(process_code=standin.NOT_SUPPORTED), 40, None),
    ],
)
def test_how_busy_a_gpu_and_its_processes_are(
    card: standin.Card, busy: int | None, of_processes: list[int | None] | None, nvml: Nvml
) -> None:
    """As the driver says; a process without a sample is idle, unless that contradicts the GPU."""
    program = _PROGRAM.replace(
        "inventory = read_inventory(processes={processes})",
        "from gpuconf.machine.cards.utilization import read_inventory_and_utilization as read\n"
        "inventory = read()",
    )
    (gpu,) = pickle.loads(_run(nvml(standin.Machine((card,))), program)).gpus
    assert gpu.busy_percent == busy
    found = None if gpu.processes is None else [each.busy_percent for each in gpu.processes]
    assert found == of_processes
