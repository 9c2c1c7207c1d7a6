"""A stand-in for NVIDIA's libnvidia-ml.so.1, so that the real nvidia-ml-py has a driver to ask.

`environment` gives what a process needs in its environment, before it starts, to see the
machine of a named scenario; the processes inside need know nothing of it:

    subprocess.run(command, env={**os.environ, **environment("desktop", directory)})

The library is compiled from standin_nvml.c, once for each folder and driver, in 0.1 s.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from gpuconf.basics.units import GIB, MIB

SOURCE = Path(__file__).with_name("standin_nvml.c")
LIBRARY = "libnvidia-ml.so.1"

# nvmlReturn_t
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, GPU_IS_LOST, MISMATCH = 3, 4, 9, 15, 18


class Process(NamedTuple):
    """A process on a GPU; ``used_bytes`` -1 is unknown, an empty ``name`` hidden.

    ``busy`` in percent is -1 for a process of which the driver has no sample.
    """

    pid: int
    kind: str = "compute"  # or graphics, or mps
    used_bytes: int = -1
    name: str = ""
    busy: int = -1


class Instance(NamedTuple):
    """A MIG instance."""

    uuid: str
    gi: int
    ci: int = 0
    total: int = 10 * GIB
    used: int = 0
    name: str = "NVIDIA A100-SXM4-40GB MIG 2g.10gb"


class Card(NamedTuple):
    """A GPU; sizes in bytes; a ``…_code`` is what the functions of that kind return."""

    uuid: str
    name: str = "NVIDIA GeForce RTX 3060"
    total: int = 12 * GIB
    reserved: int = 200 * MIB
    used: int = 0
    major: int = 8
    minor: int = 6
    display: int = 0
    mig_mode: int = -1
    handle_code: int = 0
    any_code: int = 0
    memory_code: int = 0
    process_code: int = 0
    display_code: int = 0
    ecc_mode: int = -1
    ecc_errors: int = 0
    retirement_pending: int = 0
    remap_pending: int = 0
    remap_failed: int = 0
    compute_mode: int = 0
    recovery: int = 0
    busy: int = -1  # percent; -1: not supported
    busy_process_code: int = 0
    processes: tuple[Process, ...] = ()
    instances: tuple[Instance, ...] = ()


class Machine(NamedTuple):
    """What the stand-in tells of a machine; ``driver`` also decides which functions it has."""

    cards: tuple[Card, ...] = ()
    driver: str = "570.86.15"
    cuda: int = 12080
    init_code: int = 0
    count_code: int = 0
    init_sleep_s: float = 0
    init_sleep_times: int = -1  # so often in a process an init sleeps; -1: always
    memory_sleep_s: float = 0


def uuid(place: int) -> str:
    """The UUID of the GPU at ``place``: no two begin alike."""
    return f"GPU-{place:x}e8d35e3-0000-4000-8000-00000000000{place:x}"


def mig_uuid(card: int, place: int) -> str:
    """The UUID of a MIG instance, as drivers since R470 write it."""
    return f"MIG-{card:x}{place:x}41c6d4-0000-5000-8000-000000000000"


_DESKTOP = Card(
    uuid(0),
    used=3 * GIB,
    display=1,
    processes=(
        Process(900, "graphics", 600 * MIB, "/usr/lib/xorg/Xorg"),
        Process(4242, "compute", 2 * GIB, "python3"),
        Process(4242, "graphics", 2 * GIB, "python3"),
    ),
)
_A100 = Card(uuid(0), "NVIDIA A100-SXM4-40GB", 40 * GIB, 571 * MIB, major=8, minor=0, mig_mode=1)
_INSTANCES = (
    Instance(mig_uuid(0, 0), gi=1, total=20 * GIB, used=GIB),
    Instance(mig_uuid(0, 1), gi=5),
    Instance(mig_uuid(0, 2), gi=5, ci=1),
)
_RTX_3060 = Card(uuid(1))
_ECC_CARD = _A100._replace(mig_mode=-1, ecc_mode=1)
_FOREIGN = (Process(4242, "compute", -1, "python3"), Process(4243, "compute", GIB))


def _cards(count: int) -> tuple[Card, ...]:
    return tuple(Card(uuid(place)) for place in range(count))


HANGS = Machine(_cards(1), init_sleep_s=600)
HANGS_ONCE = Machine(_cards(1), init_sleep_s=1, init_sleep_times=1)
HANGS_AT_MEMORY = Machine(_cards(1), memory_sleep_s=600)

# Where nothing is said, the machine is a sound one.
SCENARIOS = {
    "driver_not_loaded": Machine(init_code=DRIVER_NOT_LOADED),
    "version_mismatch": Machine(init_code=MISMATCH),
    "no_permission": Machine(init_code=NO_PERMISSION),
    "unheard_of_error": Machine(init_code=777),
    "uncounted": Machine(_cards(1), count_code=999),
    "no_cards": Machine(),
    "desktop": Machine((_DESKTOP,)),
    "two_cards": Machine(_cards(2)),
    "eight_cards": Machine(_cards(8)),
    "unequal_cards": Machine(
        (Card(uuid(0), "NVIDIA T400", 2 * GIB, 60 * MIB, major=7, minor=5, display=1), _RTX_3060)
    ),
    "unified_memory": Machine(
        (Card(uuid(0), "NVIDIA GB10", memory_code=NOT_SUPPORTED, major=12, minor=1),)
    ),
    "zero_memory": Machine((Card(uuid(0), "Orin (nvgpu)", 0, 0, major=8, minor=7),)),
    "process_memory_unknown": Machine((Card(uuid(0), used=3 * GIB, processes=_FOREIGN[:1]),)),
    "process_names_hidden": Machine((Card(uuid(0), used=3 * GIB, processes=_FOREIGN[1:]),)),
    "odd_names": Machine((Card(uuid(0), processes=(Process(7, "compute", GIB, "na\udcffve"),)),)),
    "mps": Machine((Card(uuid(0), processes=(Process(8, "mps", GIB, "worker"),)),)),
    "card_forbidden": Machine((Card(uuid(0), handle_code=NO_PERMISSION), _RTX_3060)),
    "lost_card": Machine((Card(uuid(0)), Card(uuid(1), handle_code=GPU_IS_LOST), Card(uuid(2)))),
    "dying_card": Machine((Card(uuid(0)), Card(uuid(1), any_code=GPU_IS_LOST))),
    "mig": Machine((_A100._replace(instances=_INSTANCES), Card(uuid(1), "NVIDIA A100-SXM4-40GB"))),
    "mig_empty": Machine((_A100,)),
    "mig_off": Machine((_A100._replace(mig_mode=0),)),
    "gpu_lost_at_start": Machine(init_code=GPU_IS_LOST),
    "sound_ecc": Machine((_ECC_CARD,)),
    "ecc_errors": Machine((_ECC_CARD._replace(ecc_errors=3),)),
    "remap_pending": Machine((_ECC_CARD._replace(remap_pending=1),)),
    "remap_failed": Machine((_ECC_CARD._replace(remap_failed=1),)),
    "wants_reboot": Machine((_ECC_CARD._replace(recovery=2),)),
    "page_retirement": Machine(
        (_ECC_CARD._replace(name="Tesla V100-SXM2-16GB", major=7, retirement_pending=1),)
    ),
    "exclusive": Machine((_RTX_3060._replace(compute_mode=3),)),
    "prohibited": Machine((_RTX_3060._replace(compute_mode=2),)),
    # Its code for a field that it does not know is an error, whatever value is there.
    "driver_r470": Machine((_DESKTOP._replace(recovery=2),), driver="470.256.02", cuda=11040),
    "driver_r440": Machine((_DESKTOP,), driver="440.33.01", cuda=10020),
    "driver_r390": Machine((_DESKTOP,), driver="390.157", cuda=9010),
    "wsl2": Machine(
        (Card(uuid(0), used=2 * GIB, process_code=NOT_SUPPORTED, display_code=NOT_SUPPORTED),)
    ),
}


def compiler() -> str | None:
    """The system's C compiler, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(directory: Path, driver: str = "570") -> Path:
    """Compile the stand-in for ``driver`` below ``directory``; return the library's folder."""
    major = driver.split(".", maxsplit=1)[0]
    folder = directory / f"driver_{major}"
    library = folder / LIBRARY
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        flags = ["-std=c11", "-shared", "-fPIC", f"-DSTANDIN_DRIVER={major}"]
        command = [compiler() or "cc", *flags, "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return folder


def environment(
    scenario: str | Machine,
    directory: Path,
    *,
    log: Path | None = None,
    call_log: Path | None = None,
) -> dict[str, str]:
    """The variables that make a new process see ``scenario``, a name or a machine of one's own.

    ``no_library`` is a machine without any driver, even where this one has one.  ``log`` is
    a file to which the stand-in writes a line for each nvmlInit and nvmlShutdown,
    ``call_log`` one that gets a line for each question for a GPU's memory or processes.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if scenario == "no_library":
        folder = directory / "no_library"
        folder.mkdir(exist_ok=True)
        (folder / LIBRARY).write_text("not a library\n")
        return {"LD_LIBRARY_PATH": str(folder)}
    machine = SCENARIOS[scenario] if isinstance(scenario, str) else scenario
    name = scenario if isinstance(scenario, str) else f"machine_{abs(hash(machine))}"
    name += "_logged" if log or call_log else ""
    facts = directory / f"{name}.txt"
    facts.write_text(_describe(machine, log, call_log), errors="surrogateescape")
    folder = build(directory, machine.driver)
    return {"LD_LIBRARY_PATH": str(folder), "STANDIN_NVML": str(facts)}


def _describe(machine: Machine, log: Path | None, call_log: Path | None) -> str:
    """``machine`` in the form that standin_nvml.c reads."""
    lines = [f"{key} {value}" for key, value in machine._asdict().items() if key != "cards"]
    lines += [f"log {log}"] if log else []
    lines += [f"call_log {call_log}"] if call_log else []
    for place, card in enumerate(machine.cards):
        lines += ["gpu", f"bus 00000000:{place + 1:02X}:00.0"]
        lines += _facts(card)
        lines += [_process(each) for each in card.processes]
        for instance in card.instances:
            lines += ["instance", f"major {card.major}", *_facts(instance)]
    return "\n".join(lines) + "\n"


def _process(process: Process) -> str:
    pid, kind, used_bytes, name, busy = process
    return f"process {pid} {kind} {used_bytes} {busy} {name}"


def _facts(device: Card | Instance) -> list[str]:
    facts = device._asdict().items()
    return [f"{key} {value}" for key, value in facts if not isinstance(value, tuple)]
