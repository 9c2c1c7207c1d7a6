"""The cost of a process from its start to its end, and medians of several."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Cost(NamedTuple):
    """The cost of one run, in seconds."""

    wall_s: float
    cpu_s: float


def cost_of(words: Sequence[str], environ: Mapping[str, str]) -> Cost:
    """Run ``words`` in its own process; ends the benchmark if it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        words,
        env=environ,
        cwd="/",  # not a checkout, where -c would look first
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime)


def median(runs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(*(statistics.median(figures) for figures in zip(*runs, strict=True)))
