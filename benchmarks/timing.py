"""The cost of gpuconf in time, one table for each subject.  `make bench`.

    python -m benchmarks.timing import|commands|run|estimate|explain|binding

Every round starts each program once, in turn, so that noise on the machine affects all alike.  Each
row is compared with another one in the same round: the columns are the medians of these
differences, the middle half of those in CPU time, the difference of the minima, and the median of
the ratios in CPU time.  Wall time is the user's waiting time; CPU time (user and system) is
steadier on a busy machine.  The goals are CPU time on an idle core.

NVML is the real nvidia-ml-py over the simulated card's library; for ``import`` and ``commands`` it
is over the real driver if there is a GPU, whose nvmlInit takes longer.  Estimates and explanations
need no card.  `python -X importtime -c "import gpuconf.auto"` shows the modules of an import.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.long_logs import KINDS
from benchmarks.machine import machine
from gpuconf.carried import SITE
from gpuconf.environ import RUN_VARIABLE
from gpuconf.hardware import read_inventory
from gpuconf.simcard import CardSpec, simulated_card

BARE = "bare interpreter"
TENSORFLOW = "import tensorflow"
# The framework that is imported is an empty module with the name of one that gpuconf hooks, so that
# only gpuconf's part of its import is measured.
FILES = {
    "cupy.py": "",
    "own.yaml": "extends: shared-desktop\nmemory:\n  memory_limit: 4GiB\n",
    "lease.yaml": "extends: half-card\nmemory: {lease: true}\n",
    "none.yaml": "extends: half-card\nmemory: {lease: false}\n",
    "networks.py": """
import keras


def resnet50():
    model = keras.applications.ResNet50(weights=None)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def mobilenet_v2():
    model = keras.applications.MobileNetV2(weights=None)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def convnet():
    inputs = keras.Input((64, 64, 3))
    hidden = keras.layers.Conv2D(16, 3, activation="relu")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(10)(keras.layers.Flatten()(hidden)))
    model.compile("adam", "mse")
    return model
""",
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
_PLAN = """
from gpuconf.profile import load_profile
from gpuconf.running.planning import plan_run
plan_run(load_profile("half-card"), "benchmark")
"""
# A real framework's import takes seconds, after which the card is queried again, with or without a
# lease: so the plan counts as old here.
_BINDING = """
import json, sys, time
def clocks():
    return time.perf_counter(), time.process_time()
def since(start):
    return [now - before for now, before in zip(clocks(), start)]
import gpuconf.auto
from gpuconf import bootstrap
loaded = [name for name in sys.modules if name.startswith(("gpuconf.leases", "gpuconf.own_lease"))]
start = clocks()
import cupy
bootstrap._binding._state = bootstrap._binding._state._replace(planned_at=float("-inf"))
middle = clocks()
plans = []
bootstrap._binding.bind(plans.append)
parts = {"import and binding": since(start), "binding": since(middle)}
has_lease = plans[0].gpus[0].lease_bytes is not None
if loaded or has_lease != (sys.argv[1] == "lease"):
    sys.exit(f"lease: {has_lease}; loaded by import gpuconf.auto: {loaded}")
print(json.dumps({"parts": parts}))
"""


class Cost(NamedTuple):
    """The cost of one run, in seconds."""

    wall_s: float
    cpu_s: float


class Row(NamedTuple):
    """A program, and the name of the row that it is compared with.

    It runs in every ``every``-th round.  One that ``has_parts`` prints JSON: the ``parts`` of its
    time, by name, and a ``note``.
    """

    name: str
    words: Sequence[str]
    environ: Mapping[str, str]
    over: str = ""
    goal_ms: float | None = None
    every: int = 1
    has_parts: bool = False


Costs = dict[str, dict[int, Cost]]  # by row, or row and part; then by round


def measure(row: Row) -> tuple[dict[str, Cost], str]:
    """Run a row in its own process: the costs by part, and its note; ends if it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        row.words,
        env=row.environ,
        cwd="/",  # not a checkout, where -c would look first
        stdout=subprocess.PIPE if row.has_parts else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    printed = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(row.words)}: exit code {process.returncode}")
    if not row.has_parts:
        return {row.name: Cost(wall_s, usage.ru_utime + usage.ru_stime)}, ""
    found = json.loads(printed)
    parts = {f"{row.name} {part}".strip(): Cost(*cost) for part, cost in found["parts"].items()}
    return parts, found.get("note", "")


def run_rounds(rows: Sequence[Row], rounds: int) -> tuple[Costs, dict[str, str]]:
    """The costs of all rows in each round, and their notes."""
    costs: Costs = {}
    notes: dict[str, str] = {}
    for number in range(-1, rounds):  # the first round writes .pyc files
        for row in rows[:: -1 if number % 2 else 1]:
            if number % row.every == 0 or (number < 0 and not row.has_parts):
                parts, note = measure(row)
                for name, cost in parts.items() if number >= 0 else ():
                    costs.setdefault(name, {})[number] = cost
                    notes[name] = note
    return costs, notes


def baselines(rows: Sequence[Row], costs: Costs) -> dict[str, str]:
    """The name with which each name of ``costs`` is compared; empty for none."""
    found = {}
    for row in rows:
        for name in costs:
            if name == row.name or (row.has_parts and name.startswith(f"{row.name} ")):
                found[name] = row.over + name.removeprefix(row.name) if row.over else ""
    return found


def print_table(rows: Sequence[Row], rounds: int) -> Costs:
    """Measure and print all rows; return their costs."""
    costs, notes = run_rounds(rows, rounds)
    goals = {row.name: f"{row.goal_ms:g}" for row in rows if row.goal_ms is not None}
    print(f"{'ms':48}{'runs':>5}{'wall':>10}{'CPU':>10}", end="")
    print(f"{'middle half':>24}{'least':>10}{'goal':>6}  ratio")
    for name, over in baselines(rows, costs).items():
        runs = costs[name]
        others = {number: costs[over][number] if over else Cost(0, 0) for number in runs}
        added = [Cost(a.wall_s - b.wall_s, a.cpu_s - b.cpu_s) for a, b in _pairs(runs, others)]
        wall_ms, cpu_ms = (1e3 * statistics.median(figures) for figures in zip(*added, strict=True))
        all_ms = [1e3 * each.cpu_s for each in added]
        low_ms, _, high_ms = statistics.quantiles(all_ms * (2 if len(all_ms) == 1 else 1), n=4)
        least_ms = 1e3 * (_least(runs) - _least(others))
        figures = f"{len(runs):5}{wall_ms:10.2f}{cpu_ms:10.2f}"
        figures += f"{f'{low_ms:.2f} to {high_ms:.2f}':>24}{least_ms:10.2f}{goals.get(name, ''):>6}"
        ratio = statistics.median(a.cpu_s / b.cpu_s for a, b in _pairs(runs, others)) if over else 0
        print(f"{name:48}{figures}  {f'{ratio:.3f} of {over}' if over else ''}{notes[name]}")
    return costs


def _pairs(one: Mapping[int, Cost], other: Mapping[int, Cost]) -> list[tuple[Cost, Cost]]:
    return [(one[number], other[number]) for number in one]


def _least(runs: Mapping[int, Cost]) -> float:
    return min(each.cpu_s for each in runs.values())


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


def import_rows(environ: Mapping[str, str], folder: Path, options: argparse.Namespace) -> list[Row]:
    """`import gpuconf.auto` by profile; with ``--before``, also with another version of gpuconf."""
    auto = "import gpuconf.auto"
    own = str(folder / "own.yaml")
    ours = [
        (f"{auto} (cpu-only)", auto, "cpu-only", 8),
        (f"{auto} (shared-desktop)", auto, "shared-desktop", 8),
        (f"{auto} (a profile of one's own)", auto, own, 15),
        (f"{auto}, NVML queried", f"{auto}, cupy", "shared-desktop", 15),
    ]
    rows = [python_row(BARE, "pass", environ)]
    for name, code, profile, goal_ms in ours:
        chosen = {**environ, "GPUCONF_PROFILE": profile}
        rows.append(python_row(name, code, chosen, goal_ms=goal_ms))
        if options.before:
            paths = [os.path.abspath(options.before), chosen["PYTHONPATH"]]
            chosen["PYTHONPATH"] = os.pathsep.join(paths)
            rows.append(python_row(f"before: {name}", code, chosen))
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


def command_rows(environ: Mapping[str, str], _folder: Path, _: argparse.Namespace) -> list[Row]:
    """Each command, as its console script runs it with the most common profile."""
    goals_ms = {"--version": 30, "--help": 30, "plan": 60, "ps": 60, "doctor": 120}
    chosen = {**environ, "GPUCONF_PROFILE": "shared-desktop"}
    return [python_row(BARE, "pass", chosen)] + [
        python_row(f"gpuconf {command}", _COMMAND.format(command=command), chosen, goal_ms=goal_ms)
        for command, goal_ms in goals_ms.items()
    ]


def run_rows(environ: Mapping[str, str], folder: Path, _: argparse.Namespace) -> list[Row]:
    """`gpuconf run` before its command, and the start of each Python within and without it.

    The plan itself, which any program under gpuconf needs, is a row of its own.  A Python's start
    is compared with one that has no GPUCONF_RUN and an empty folder in place of the payload.
    """
    run = [sys.executable, "-m", "gpuconf", "run", "--profile", "half-card", "--"]
    plan = "the plan and the lease, with their imports"
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    words = [*run, sys.executable, "-c", code]
    done = subprocess.run(words, env=environ, capture_output=True, check=True)
    inside = json.loads(done.stdout)
    outside = {name: value for name, value in inside.items() if name != RUN_VARIABLE}
    (folder / "empty").mkdir()
    outside["PYTHONPATH"] = inside["PYTHONPATH"].replace(SITE, str(folder / "empty"))
    rows = [
        python_row(BARE, "pass", environ),
        python_row(plan, _PLAN, environ),
        Row("gpuconf run before the command", [*run, "/bin/true"], environ, plan, 60),
    ]
    for version, python in other_pythons().items():
        words, alone = [python, "-c", "pass"], f"Python {version}"
        rows.append(Row(alone, words, outside))
        rows.append(Row(f"{alone} in gpuconf run", words, inside, alone, 10))
    return rows


def other_pythons() -> dict[str, str]:
    """Interpreters on PATH and in pyenv, by version."""
    found: dict[str, str] = {}
    folders = os.environ.get("PATH", "").split(os.pathsep)
    folders += [str(path) for path in Path.home().glob(".pyenv/versions/*/bin")]
    for folder in (os.path.dirname(sys.executable), *folders):
        for path in sorted(Path(folder).glob("python[23]*")) if os.path.isdir(folder) else ():
            if re.fullmatch(r"python(2\.7|3\.\d+)", path.name) and "shims" not in folder:
                found.setdefault(path.name.removeprefix("python"), str(path))
    return dict(sorted(found.items(), key=lambda each: [*map(int, each[0].split("."))]))


def estimate_rows(environ: Mapping[str, str], folder: Path, _: argparse.Namespace) -> list[Row]:
    """`gpuconf estimate` at batch 32, beyond an import of TensorFlow and Keras.

    The command imports without garbage collection, and the time saved is credited to it.  With XLA
    a child process compiles in parallel, so wall time counts there.
    """
    imports, alone = "import tensorflow, keras", "the import alone"
    start = [sys.executable, "-m", "gpuconf", "estimate"]
    ways = {
        "op by op": ["--no-jit"],
        "op by op, largest batch too": ["--no-jit", "--limit", "6GiB"],
        "under XLA": [],
    }
    without = f"import gc; gc.disable(); {imports}"
    return [
        python_row(alone, imports, environ, over=""),
        python_row("the import, no garbage collection", without, environ, over=alone),
        *(
            Row(
                f"{model}, {way}",
                [*start, f"{folder / 'networks.py'}:{model}", *words],
                environ,
                alone,
            )
            for model in ("resnet50", "mobilenet_v2", "convnet")
            for way, words in ways.items()
        ),
    ]


def explain_rows(environ: Mapping[str, str], _: Path, options: argparse.Namespace) -> list[Row]:
    """`gpuconf explain` for logs of each kind, with its peak memory; see ``long_logs``."""
    program = [sys.executable, str(Path(__file__).with_name("long_logs.py"))]
    first, size = next(iter(KINDS)), ["--megabytes", str(options.megabytes)]
    return [
        Row(kind, [*program, kind, *size], environ, first if kind != first else "", has_parts=True)
        for kind in KINDS
    ]


def binding_rows(environ: Mapping[str, str], folder: Path, _: argparse.Namespace) -> list[Row]:
    """The binding with a lease and without: from the import of a framework to after it."""
    rows = []
    for name, over in (("none", ""), ("lease", "none,")):
        chosen = {**environ, "GPUCONF_PROFILE": str(folder / f"{name}.yaml")}
        words = [sys.executable, "-c", _BINDING, name]
        rows.append(Row(f"{name},", words, chosen, over, has_parts=True))
    return rows


class Subject(NamedTuple):
    """A table: its rows, the default number of rounds, and the packages that matter for it."""

    rows: Callable[[Mapping[str, str], Path, argparse.Namespace], list[Row]]
    rounds: int = 40
    packages: tuple[str, ...] = ("pyyaml", "nvidia-ml-py")
    card: Literal["simulated", "real if there is one", "none"] = "simulated"


_REAL: Literal["real if there is one"] = "real if there is one"
SUBJECTS = {
    "import": Subject(import_rows, 40, ("tensorflow", "pyyaml", "nvidia-ml-py"), _REAL),
    "commands": Subject(command_rows, 40, ("pyyaml", "nvidia-ml-py", "rich"), _REAL),
    "run": Subject(run_rows),
    "estimate": Subject(estimate_rows, 3, ("tensorflow", "keras"), "none"),
    "explain": Subject(explain_rows, 1, (), "none"),
    "binding": Subject(binding_rows),
}


@contextmanager
def environment(folder: Path, card: str) -> Iterator[tuple[dict[str, str], str]]:
    """The environment of all rows, and NVML's name for the table's head."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    paths = [str(folder), *filter(None, [environ.get("PYTHONPATH")])]
    environ["PYTHONPATH"] = os.pathsep.join(paths)
    inventory = read_inventory()
    if card == "none":
        yield environ, "as on this machine"
    elif card == _REAL and inventory.gpus:
        yield environ, f"driver {inventory.driver_version}"
    else:
        with simulated_card(CardSpec()) as made:
            yield made.environment(environ), "nvidia-ml-py over the simulated card"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--rounds", type=int, help="default: 40; estimate: 3; explain: 1")
    parser.add_argument("--only", metavar="WORD", default="", help="rows whose name has this word")
    parser.add_argument("--before", metavar="CHECKOUT", help="import: another version of gpuconf")
    parser.add_argument("--megabytes", type=int, default=200, help="explain: of each log")
    options = parser.parse_args()
    subject: Subject = SUBJECTS[options.subject]
    rounds = options.rounds or subject.rounds
    print(machine(*subject.packages))
    with (
        tempfile.TemporaryDirectory() as folder,
        environment(Path(folder), subject.card) as (environ, nvml),
    ):
        rows = subject.rows(environ, Path(folder), options)
        chosen = [row for row in rows if options.only in row.name]
        needed = {row.over for row in chosen} | {row.name for row in chosen}
        needed |= {row.over for row in rows if row.name in needed}
        rows = [row for row in rows if row.name in needed]
        print(f"NVML: {nvml}; {rounds} rounds", flush=True)
        costs = print_table(rows, rounds)
        if options.subject == "import":
            print_shares(costs)


if __name__ == "__main__":
    main()
