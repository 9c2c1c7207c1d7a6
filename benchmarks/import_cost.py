"""What `import gpuconf.auto` costs: medians of interleaved runs, as a table. `make bench`.

Every round starts each program once, in turn, so that noise on the machine falls on all alike.
Wall time is what a user waits; CPU time (user and system) is steadier on a busy machine.  With
``--before CHECKOUT`` the same programs run with another version of gpuconf in the same rounds.

NVML is the real nvidia-ml-py over the simulated card's library, or over the real driver where
there is a GPU; a real driver's nvmlInit takes longer than the simulated one's.  The framework is an
empty module, named as one that gpuconf hooks: what is measured is gpuconf's part of its import.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import machine
from benchmarks.processes import Cost, cost_of, median
from gpuconf.hardware import read_inventory
from gpuconf.simcard import CardSpec, simulated_card


class Program(NamedTuple):
    """A line of the table: code, the profile it runs under, and the gpuconf it finds."""

    name: str
    code: str = "pass"
    profile: str = "cpu-only"
    checkout: str | None = None


OURS = (
    Program("import gpuconf.auto (cpu-only)", "import gpuconf.auto"),
    Program("import gpuconf.auto (shared-desktop)", "import gpuconf.auto", "shared-desktop"),
    Program("the same, and a framework's import", "import gpuconf.auto, cupy", "shared-desktop"),
)
BARE = Program("bare interpreter")
TENSORFLOW = Program("import tensorflow", "import tensorflow")
# Each of Python's audit events in that import meets gpuconf's hook.
BOTH = Program("import gpuconf.auto, tensorflow", "import gpuconf.auto, tensorflow")
SLOW = (TENSORFLOW, BOTH)


def measure(program: Program, environ: dict[str, str]) -> Cost:
    """Run ``program`` in a process of its own."""
    paths = [path for path in (program.checkout, environ.get("PYTHONPATH")) if path]
    environ = {
        **environ,
        "GPUCONF_PROFILE": program.profile,
        "PYTHONPATH": os.pathsep.join(paths),
    }
    return cost_of([sys.executable, "-c", program.code], environ)


def run_rounds(
    programs: list[Program], rounds: int, environ: dict[str, str]
) -> dict[Program, list[Cost]]:
    """The costs of each program, one for each round; those with TensorFlow in every fourth."""
    environ = {k: v for k, v in environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for program in programs:
        measure(program, environ)  # compiled files are written once
    costs: dict[Program, list[Cost]] = {program: [] for program in programs}
    for number in range(rounds):
        for program in programs:
            if program not in SLOW or number % 4 == 0:
                costs[program].append(measure(program, environ))
    return costs


def print_table(costs: dict[Program, list[Cost]], nvml: str) -> None:
    """Medians, what each adds to the bare interpreter, and that as a share of TensorFlow's."""
    over = {program: median(runs) for program, runs in costs.items()}
    bare, tensorflow = over[BARE], over[TENSORFLOW]
    print(machine("tensorflow", "pyyaml", "nvidia-ml-py"), f"NVML: {nvml}", sep="\n")
    print(f"{'over the bare interpreter, ms':52}{'runs':>5}{'wall':>9}{'CPU':>9}{'CPU, of TF':>12}")
    for program, runs in costs.items():
        wall_s, cpu_s = (a - b for a, b in zip(over[program], bare, strict=True))
        share = f"{100 * cpu_s / (tensorflow.cpu_s - bare.cpu_s):.1f} %"
        figures = f"{wall_s * 1e3:9.1f}{cpu_s * 1e3:9.1f}{share:>12}"
        print(f"{program.name:52}{len(runs):5}{figures}")
    print(f"the bare interpreter: wall {bare.wall_s * 1e3:.1f} ms, CPU {bare.cpu_s * 1e3:.1f} ms")


@contextmanager
def empty_framework() -> Iterator[str]:
    """A folder with a module that has a framework's name and nothing in it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cupy.py").write_text("", encoding="utf-8")
        yield folder


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="default: 40")
    parser.add_argument("--before", metavar="CHECKOUT", help="another version, to measure beside")
    options = parser.parse_args()
    programs = [BARE, *OURS]
    if options.before:
        before = os.path.abspath(options.before)
        programs += [each._replace(name=f"before: {each.name}", checkout=before) for each in OURS]
    programs += SLOW
    with empty_framework() as folder:
        environ = {**os.environ, "PYTHONPATH": folder}
        inventory = read_inventory()
        if inventory.gpus:
            costs = run_rounds(programs, options.rounds, environ)
            print_table(costs, f"driver {inventory.driver_version}")
            return
        with simulated_card(CardSpec()) as card:
            costs = run_rounds(programs, options.rounds, card.environment(environ))
        print_table(costs, "nvidia-ml-py over the simulated card")


if __name__ == "__main__":
    main()
