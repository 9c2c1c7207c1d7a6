"""Cost of gpuconf's commands over a bare interpreter, and their slowest modules.  `make bench`.

Every round starts each command once, in turn, as its console script does, so that noise on the
machine affects all alike.  CPU time (user and system) is steadier than wall time on a busy machine.
NVML is the real nvidia-ml-py over the simulated card's library, or over the real driver if there is
a GPU. The goals are for an idle core.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

from benchmarks.import_cost import BARE, Program, module_times, run_rounds
from benchmarks.machine import machine
from benchmarks.processes import median
from gpuconf.hardware import read_inventory
from gpuconf.simcard import CardSpec, simulated_card

# The goal for each command: maximum CPU time in milliseconds, over the interpreter.
GOALS_MS = {"--version": 30, "--help": 30, "plan": 60, "ps": 60, "doctor": 120}
# A failed check is a valid result of doctor; any other failure ends the benchmark.
_STARTS = """
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


def program_of(command: str) -> Program:
    """The command as a console script runs it, with the most common profile."""
    return Program(f"gpuconf {command}", _STARTS.format(command=command), "shared-desktop")


def print_costs(programs: Sequence[Program], rounds: int, environ: dict[str, str]) -> None:
    """Print medians over the bare interpreter, with the goal of each."""
    costs = run_rounds([BARE, *programs], rounds, environ)
    bare = median(costs[BARE])
    print(f"{'over the bare interpreter, ms':32}{'wall':>9}{'CPU':>9}{'least CPU':>11}{'goal':>7}")
    for program, goal_ms in zip(programs, GOALS_MS.values(), strict=True):
        wall_s, cpu_s = (a - b for a, b in zip(median(costs[program]), bare, strict=True))
        least_s = min(cost.cpu_s for cost in costs[program])
        least_s -= min(cost.cpu_s for cost in costs[BARE])
        figures = f"{wall_s * 1e3:9.1f}{cpu_s * 1e3:9.1f}{least_s * 1e3:11.1f}"
        print(f"{program.name:32}{figures}{goal_ms:7}")
    least_s = min(cost.cpu_s for cost in costs[BARE])
    figures = f"wall {bare.wall_s * 1e3:.1f} ms, CPU {bare.cpu_s * 1e3:.1f} ms"
    print(f"the bare interpreter: {figures}, least {least_s * 1e3:.1f} ms")


def print_dearest(
    programs: Sequence[Program], most: int, rounds: int, environ: Mapping[str, str]
) -> None:
    """Print the slowest modules of each command, by `-X importtime`."""
    print(f"\nthe {most} dearest modules of each: ms by themselves, least of {rounds} runs")
    for program in programs:
        least = module_times(program, rounds, environ)
        dearest = sorted(least, key=least.__getitem__, reverse=True)[:most]
        shown = ", ".join(f"{name} {least[name] / 1e3:.1f}" for name in dearest)
        print(f"{program.name} ({len(least)} modules): {shown}")


def measure(rounds: int, environ: Mapping[str, str], nvml: str) -> None:
    """Print both tables."""
    programs = [program_of(command) for command in GOALS_MS]
    clean = {k: v for k, v in environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    print(machine("pyyaml", "nvidia-ml-py", "rich"), f"NVML: {nvml}; {rounds} rounds", sep="\n")
    print_costs(programs, rounds, clean)
    print_dearest(programs, 6, min(rounds, 10), clean)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="default: 40")
    rounds = parser.parse_args().rounds
    inventory = read_inventory()
    if inventory.gpus:
        measure(rounds, os.environ, f"driver {inventory.driver_version}")
        return
    with simulated_card(CardSpec()) as card:
        measure(rounds, card.environment(os.environ), "nvidia-ml-py over the simulated card")


if __name__ == "__main__":
    main()
