"""What `import gpuconf.auto` costs: medians of interleaved runs, as a table. `make bench`.

Every round starts each program once, in turn, so that noise on the machine falls on all alike.
NVML is the real nvidia-ml-py over the simulated card's library, or over the real driver where
there is a GPU; a real driver's nvmlInit takes longer than the simulated one's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

from machine import machine

from gpuconf.hardware import read_inventory
from gpuconf.simcard import CardSpec, simulated_card

PROGRAMS = {
    "bare interpreter": ("pass", "cpu-only"),
    "import gpuconf.auto, no NVML asked (cpu-only)": ("import gpuconf.auto", "cpu-only"),
    "import gpuconf.auto, NVML asked (shared-desktop)": ("import gpuconf.auto", "shared-desktop"),
}
TENSORFLOW = "import tensorflow"


def measure_s(code: str, environ: dict[str, str]) -> float:
    """Wall-clock seconds of one Python process that runs ``code``."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environ, capture_output=True)
    return time.perf_counter() - started


def run_rounds(rounds: int, environ: dict[str, str]) -> dict[str, list[float]]:
    """Seconds per program, one for each round; TensorFlow in every fourth round."""
    environ = {k: v for k, v in environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for code, profile in (*PROGRAMS.values(), (TENSORFLOW, "cpu-only")):
        # Compiled files are written once, at installation or on the first run.
        measure_s(code, {**environ, "GPUCONF_PROFILE": profile})
    seconds: dict[str, list[float]] = {name: [] for name in [*PROGRAMS, TENSORFLOW]}
    for number in range(rounds):
        for name, (code, profile) in PROGRAMS.items():
            seconds[name].append(measure_s(code, {**environ, "GPUCONF_PROFILE": profile}))
        if number % 4 == 0:
            seconds[TENSORFLOW].append(measure_s(TENSORFLOW, environ))
    return seconds


def print_table(seconds: dict[str, list[float]], nvml: str) -> None:
    """Medians, what each adds to the bare interpreter, and that as a share of TensorFlow's."""
    bare = statistics.median(seconds["bare interpreter"])
    tensorflow = statistics.median(seconds[TENSORFLOW]) - bare
    print(machine("tensorflow", "pyyaml", "nvidia-ml-py"), f"NVML: {nvml}", sep="\n")
    print(f"{'':52}{'runs':>5}{'median':>10}{'over bare':>11}{'of TF':>8}")
    for name, runs in seconds.items():
        median = statistics.median(runs)
        over = median - bare
        share = f"{100 * over / tensorflow:.1f} %"
        print(f"{name:52}{len(runs):5}{median * 1e3:7.1f} ms{over * 1e3:8.1f} ms{share:>8}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="default: 40")
    rounds = parser.parse_args().rounds
    inventory = read_inventory()
    if inventory.gpus:
        print_table(run_rounds(rounds, dict(os.environ)), f"driver {inventory.driver_version}")
        return
    with simulated_card(CardSpec()) as card:
        environ = card.environment(os.environ)
        print_table(run_rounds(rounds, environ), "nvidia-ml-py over the simulated card")


if __name__ == "__main__":
    main()
