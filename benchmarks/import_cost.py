"""The cost of `import gpuconf.auto`: medians of interleaved runs, as a table.  `make bench`.

Every round starts each program once, in turn, so that noise on the machine affects all alike.  Wall
time is the user's waiting time; CPU time (user and system) is steadier on a busy machine.  With
``--before CHECKOUT`` the same programs run with another version of gpuconf in the same rounds.  A
second table splits the import into modules, measured by ``python -X importtime``.

NVML is the real nvidia-ml-py over the simulated card's library, or over the real driver if there is
a GPU; a real driver's nvmlInit takes longer than the simulated one.  It is queried when a framework
is imported.  The framework is an empty module with the name of one that gpuconf hooks, so that only
gpuconf's part of its import is measured.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import machine
from benchmarks.processes import Cost, cost_of, median
from gpuconf.hardware import read_inventory
from gpuconf.simcard import CardSpec, simulated_card

OWN_PROFILE = "extends: shared-desktop\nmemory:\n  memory_limit: 4GiB\n"


class Program(NamedTuple):
    """A line of the table: code, the profile that it runs with, and the gpuconf that it imports.

    ``goal_ms`` is the goal over the bare interpreter, in CPU time on an idle core.
    """

    name: str
    code: str = "pass"
    profile: str = "cpu-only"
    checkout: str | None = None
    goal_ms: float | None = None


AUTO = "import gpuconf.auto"
OURS = (
    Program(f"{AUTO} (cpu-only)", AUTO, goal_ms=8),
    Program(f"{AUTO} (shared-desktop)", AUTO, "shared-desktop", goal_ms=8),
    Program(f"{AUTO} (a profile of one's own)", AUTO, "own.yaml", goal_ms=15),
    Program("the same as the second, and NVML asked", f"{AUTO}, cupy", "shared-desktop", None, 15),
)
BARE = Program("bare interpreter")
# The part of the previous line that is not ours.
PYNVML = Program("import pynvml alone", "import pynvml")
TENSORFLOW = Program("import tensorflow", "import tensorflow")
# gpuconf's hook handles each of Python's audit events in that import.
BOTH = Program("import gpuconf.auto, tensorflow", "import gpuconf.auto, tensorflow")
SLOW = (TENSORFLOW, BOTH)


def environment_of(program: Program, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of ``program``."""
    paths = [path for path in (program.checkout, environ.get("PYTHONPATH")) if path]
    profile = program.profile
    if profile.endswith(".yaml"):
        profile = os.path.join(environ["PYTHONPATH"], profile)
    return {**environ, "GPUCONF_PROFILE": profile, "PYTHONPATH": os.pathsep.join(paths)}


def measure(program: Program, environ: Mapping[str, str]) -> Cost:
    """Run ``program`` in its own process."""
    return cost_of([sys.executable, "-c", program.code], environment_of(program, environ))


def run_rounds(
    programs: list[Program], rounds: int, environ: Mapping[str, str]
) -> dict[Program, list[Cost]]:
    """The costs of each program, one per round; those with TensorFlow in every fourth round."""
    for program in programs:
        measure(program, environ)  # writes .pyc files first
    costs: dict[Program, list[Cost]] = {program: [] for program in programs}
    for number in range(rounds):
        for program in programs:
            if program not in SLOW or number % 4 == 0:
                costs[program].append(measure(program, environ))
    return costs


def print_table(costs: dict[Program, list[Cost]], nvml: str) -> None:
    """Print medians, their differences to the bare interpreter, and the shares of TensorFlow's."""
    over = {program: median(runs) for program, runs in costs.items()}
    bare, tensorflow = over[BARE], over[TENSORFLOW]
    print(machine("tensorflow", "pyyaml", "nvidia-ml-py"), f"NVML: {nvml}", sep="\n")
    heads = f"{'runs':>5}{'wall':>9}{'CPU':>9}{'goal':>6}{'CPU, of TF':>12}"
    print(f"{'over the bare interpreter, ms':52}{heads}")
    for program, runs in costs.items():
        wall_s, cpu_s = (a - b for a, b in zip(over[program], bare, strict=True))
        share = f"{100 * cpu_s / (tensorflow.cpu_s - bare.cpu_s):.2f} %"
        goal = "" if program.goal_ms is None else f"{program.goal_ms:g}"
        figures = f"{wall_s * 1e3:9.1f}{cpu_s * 1e3:9.1f}{goal:>6}{share:>12}"
        print(f"{program.name:52}{len(runs):5}{figures}")
    print(f"the bare interpreter: wall {bare.wall_s * 1e3:.1f} ms, CPU {bare.cpu_s * 1e3:.1f} ms")


def module_times(program: Program, rounds: int, environ: Mapping[str, str]) -> dict[str, int]:
    """Each module's own microseconds, the minimum of ``rounds``, in order of import.

    Modules that the bare interpreter imports are excluded.
    """
    least: dict[str, int] = {}
    for _ in range(rounds):
        for name, time_us in _import_times(program, environ):
            least[name] = min(time_us, least.get(name, time_us))
    for name, _ in _import_times(BARE, environ):
        least.pop(name, None)
    return least


def _import_times(program: Program, environ: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program.code],
        cwd="/",
        env=environment_of(program, environ),
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    for line in done.stderr.splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        if own.strip().isdecimal():
            yield rest.partition("|")[2].strip(), int(own)


def print_modules(least: Mapping[str, int], program: Program) -> None:
    """Print each module's own time and its share of the total, slowest first."""
    whole = sum(least.values())
    print(f"\n{program.name}: {len(least)} modules, {whole / 1e3:.1f} ms of wall time with the")
    print("bookkeeping of -X importtime, the least of all runs for each; gpuconf.auto also runs it")
    for name in sorted(least, key=least.__getitem__, reverse=True):
        print(f"{name:44}{least[name] / 1e3:7.2f} ms{100 * least[name] / whole:6.1f} %")


@contextmanager
def on_the_path() -> Iterator[str]:
    """Create a folder with an empty module named like a framework, and a profile."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "cupy.py").write_text("", encoding="utf-8")
        Path(folder, "own.yaml").write_text(OWN_PROFILE, encoding="utf-8")
        yield folder


def measure_all(programs: list[Program], rounds: int, environ: dict[str, str], nvml: str) -> None:
    """Print both tables."""
    environ = {k: v for k, v in environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    print_table(run_rounds(programs, rounds, environ), nvml)
    print_modules(module_times(OURS[1], rounds, environ), OURS[1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="default: 40")
    parser.add_argument("--before", metavar="CHECKOUT", help="another version, to measure beside")
    options = parser.parse_args()
    programs = [BARE, *OURS, PYNVML]
    if options.before:
        before = os.path.abspath(options.before)
        programs += [
            each._replace(name=f"before: {each.name}", checkout=before, goal_ms=None)
            for each in OURS
        ]
    programs += SLOW
    with on_the_path() as folder:
        environ = {**os.environ, "PYTHONPATH": folder}
        inventory = read_inventory()
        if inventory.gpus:
            measure_all(programs, options.rounds, environ, f"driver {inventory.driver_version}")
            return
        with simulated_card(CardSpec()) as card:
            environ = card.environment(environ)
            nvml = "nvidia-ml-py over the simulated card"
            measure_all(programs, options.rounds, environ, nvml)


if __name__ == "__main__":
    main()
