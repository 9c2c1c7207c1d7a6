"""The cost of gpuconf in time, one table for each subject.  `make bench`.

    python -m benchmarks.timing import|commands

Every round starts each program once, in turn, so that noise on the machine affects all alike.  Each
row is compared with another one in the same round: the columns are the medians of these
differences, and the middle half of those in CPU time.  Wall time is the user's waiting time; CPU
time (user and system) is steadier on a busy machine.

NVML is the real nvidia-ml-py over the simulated GPU's library, or over the real driver if there
is a GPU, whose nvmlInit takes longer.  `python -X importtime -c "import gpuconf.auto"` shows the
modules of an import.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import machine
from gpuconf.machine.cards import read_inventory
from gpuconf.simcard import CardSpec, simulated_card

BARE = "bare interpreter"
TENSORFLOW = "import tensorflow"
# The framework that is imported is an empty module with the name of one that gpuconf hooks, so that
# only gpuconf's part of its import is measured.
FILES = {
    "cupy.py": "",
    "own.yaml": "extends: shared-desktop\nmemory:\n  memory_limit: 4GiB\n",
}
# A failed check is a valid result of doctor; any other failure ends the benchmark.
_COMMAND = """
import os, sys
sys.argv[1:] = [{command!r}]
sys.stdout = open(os.devnull, "w")
from gpuconf.__main__ import run
try:
    run()
except SystemExit as stop:
    if stop.code not in (None, 0, 1):
        raise
"""


class Cost(NamedTuple):
    """The cost of one run, in seconds."""

    wall_s: float
    cpu_s: float


class Row(NamedTuple):
    """A program, and the name of the row that it is compared with.

    It runs in every ``every``-th round.
    """

    name: str
    words: Sequence[str]
    environ: Mapping[str, str]
    over: str = ""
    every: int = 1


Costs = dict[str, dict[int, Cost]]  # by row, then by round


def measure(row: Row) -> Cost:
    """Run a row in its own process; ends if it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        row.words,
        env=row.environ,
        cwd="/",  # not a checkout, where -c would look first
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(row.words)}: exit code {process.returncode}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime)


def run_rounds(rows: Sequence[Row], rounds: int) -> Costs:
    """The costs of all rows in each round."""
    costs: Costs = {row.name: {} for row in rows}
    for number in range(-1, rounds):  # the first round writes .pyc files
        for row in rows[:: -1 if number % 2 else 1]:
            if number < 0 or number % row.every == 0:
                cost = measure(row)
                if number >= 0:
                    costs[row.name][number] = cost
    return costs


def print_table(rows: Sequence[Row], rounds: int) -> Costs:
    """Measure and print all rows; return their costs."""
    costs = run_rounds(rows, rounds)
    print(f"{'ms':48}{'runs':>5}{'wall':>10}{'CPU':>10}{'middle half':>24}")
    for row in rows:
        runs = costs[row.name]
        others = costs[row.over] if row.over else dict.fromkeys(runs, Cost(0, 0))
        added = [Cost(a.wall_s - b.wall_s, a.cpu_s - b.cpu_s) for a, b in _pairs(runs, others)]
        wall_ms, cpu_ms = (1e3 * statistics.median(figures) for figures in zip(*added, strict=True))
        all_ms = [1e3 * each.cpu_s for each in added]
        low_ms, _, high_ms = statistics.quantiles(all_ms * (2 if len(all_ms) == 1 else 1), n=4)
        figures = f"{len(runs):5}{wall_ms:10.2f}{cpu_ms:10.2f}"
        print(f"{row.name:48}{figures}{f'{low_ms:.2f} to {high_ms:.2f}':>24}")
    return costs


def _pairs(one: Mapping[int, Cost], other: Mapping[int, Cost]) -> list[tuple[Cost, Cost]]:
    return [(one[number], other[number]) for number in one]


def print_shares(costs: Costs) -> None:
    """Print how much of TensorFlow's import gpuconf's is, both without the interpreter's start."""
    cpu_s = {
        name: statistics.median(c.cpu_s for c in runs.values()) for name, runs in costs.items()
    }
    for name in costs:
        if name.startswith("import gpuconf.auto") and TENSORFLOW in cpu_s:
            share = (cpu_s[name] - cpu_s[BARE]) / (cpu_s[TENSORFLOW] - cpu_s[BARE])
            print(f"{name}: {share:.2%} of {TENSORFLOW}, in CPU time")


def python_row(name: str, code: str, environ: Mapping[str, str], **options: Any) -> Row:
    """A row of Python code, compared with the bare interpreter."""
    row = Row(name, [sys.executable, "-c", code], environ, BARE if name != BARE else "")
    return row._replace(**options)


def import_rows(environ: Mapping[str, str], folder: Path) -> list[Row]:
    """`import gpuconf.auto` by profile."""
    auto = "import gpuconf.auto"
    own = str(folder / "own.yaml")
    ours = [
        (f"{auto} (cpu-only)", auto, "cpu-only"),
        (f"{auto} (shared-desktop)", auto, "shared-desktop"),
        (f"{auto} (a profile of one's own)", auto, own),
        (f"{auto}, NVML queried", f"{auto}, cupy", "shared-desktop"),
    ]
    rows = [python_row(BARE, "pass", environ)]
    for name, code, profile in ours:
        rows.append(python_row(name, code, {**environ, "GPUCONF_PROFILE": profile}))
    cpu_only = {**environ, "GPUCONF_PROFILE": "cpu-only"}
    return [
        *rows,
        python_row("import pynvml", "import pynvml", environ),  # this part is not ours
        python_row(TENSORFLOW, TENSORFLOW, environ, every=4),
        # gpuconf's hook handles each of Python's audit events in that import.
        python_row(
            f"{auto}, tensorflow", f"{auto}, tensorflow", cpu_only, over=TENSORFLOW, every=4
        ),
    ]


def command_rows(environ: Mapping[str, str], _folder: Path) -> list[Row]:
    """Each command, as its console script runs it with the most common profile."""
    chosen = {**environ, "GPUCONF_PROFILE": "shared-desktop"}
    return [python_row(BARE, "pass", chosen)] + [
        python_row(f"gpuconf {command}", _COMMAND.format(command=command), chosen)
        for command in ("--version", "--help", "plan", "ps", "doctor")
    ]


class Subject(NamedTuple):
    """A table: its rows, and the packages that matter for it."""

    rows: Callable[[Mapping[str, str], Path], list[Row]]
    packages: tuple[str, ...]


SUBJECTS = {
    "import": Subject(import_rows, ("tensorflow", "pyyaml", "nvidia-ml-py")),
    "commands": Subject(command_rows, ("pyyaml", "nvidia-ml-py", "rich")),
}


@contextmanager
def environment(folder: Path) -> Iterator[tuple[dict[str, str], str]]:
    """The environment of all rows, and NVML's name for the table's head."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    paths = [str(folder), *filter(None, [environ.get("PYTHONPATH")])]
    environ["PYTHONPATH"] = os.pathsep.join(paths)
    inventory = read_inventory()
    if inventory.gpus:
        yield environ, f"driver {inventory.driver_version}"
    else:
        with simulated_card(CardSpec()) as made:
            yield made.environment(environ), "nvidia-ml-py over the simulated GPU"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--rounds", type=int, default=40, help="default: 40")
    options = parser.parse_args()
    subject: Subject = SUBJECTS[options.subject]
    print(machine(*subject.packages))
    with (
        tempfile.TemporaryDirectory() as folder,
        environment(Path(folder)) as (environ, nvml),
    ):
        print(f"NVML: {nvml}; {options.rounds} rounds", flush=True)
        costs = print_table(subject.rows(environ, Path(folder)), options.rounds)
        if options.subject == "import":
            print_shares(costs)


if __name__ == "__main__":
    main()
