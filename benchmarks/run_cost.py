"""The cost of `gpuconf run`: before the command starts, and at the start of each Python in it.

Every round starts each program once, in turn, so that noise on the machine affects all alike.  The
plan itself, which any program under gpuconf needs, is measured separately and subtracted.  A
Python's start is measured in the environment of a run, and compared with the same without
GPUCONF_RUN and with an empty folder in place of the payload.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.processes import Cost, cost_of, median
from gpuconf.carried import SITE
from gpuconf.environ import RUN_VARIABLE
from gpuconf.simcard import CardSpec, simulated_card

RUN = (sys.executable, "-m", "gpuconf", "run", "--profile", "half-card", "--")
PLANS = """
from gpuconf.profile import load_profile
from gpuconf.running.planning import plan_run
plan_run(load_profile("half-card"), "benchmark")
"""
# The command, then the one that is subtracted to give the row's figure.
ROWS = {
    "gpuconf run before the command, without the plan": ("run", "plan"),
    "the plan and the lease, with their imports": ("plan", "bare"),
}


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


def run_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a program in a run."""
    words = [*RUN, sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    done = subprocess.run(words, env=environ, capture_output=True, check=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def interleaved(
    programs: Mapping[str, tuple[Sequence[str], Mapping[str, str]]], rounds: int
) -> dict[str, Cost]:
    """The median cost of each program, one run of each in turn."""
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for number in range(rounds + 1):
        for name, (words, environ) in programs.items():
            cost = cost_of(words, environ)
            if number:  # the first writes .pyc files
                costs[name].append(cost)
    return {name: median(runs) for name, runs in costs.items()}


def print_difference(name: str, one: Cost, other: Cost) -> None:
    """Print a row: how much more ``one`` takes than ``other``."""
    figures = [f"{(a - b) * 1e3:9.1f}" for a, b in zip(one, other, strict=True)]
    print(f"{name:52}{''.join(figures)}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="default: 40")
    rounds = parser.parse_args().rounds
    base = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with simulated_card(CardSpec()) as card, tempfile.TemporaryDirectory() as empty:
        environ = card.environment(base)
        before = interleaved(
            {
                "bare": ([sys.executable, "-c", "pass"], environ),
                "plan": ([sys.executable, "-c", PLANS], environ),
                "run": ([*RUN, "/bin/true"], environ),
            },
            rounds,
        )
        print(machine("pyyaml", "nvidia-ml-py"))
        print(f"{'ms':52}{'wall':>9}{'CPU':>9}")
        for name, (one, other) in ROWS.items():
            print_difference(name, before[one], before[other])
        inside = run_environment(environ)
        outside = {name: value for name, value in inside.items() if name != RUN_VARIABLE}
        outside["PYTHONPATH"] = inside["PYTHONPATH"].replace(SITE, empty)
        for version, python in other_pythons().items():
            words = [python, "-c", "pass"]
            starts = interleaved({"in": (words, inside), "out": (words, outside)}, rounds)
            print_difference(f"the start of Python {version} in it", starts["in"], starts["out"])


if __name__ == "__main__":
    main()
