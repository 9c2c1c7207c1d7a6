"""The live probe: run the child, again for single cards where need be, within its time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gpuconf.doctor import PROBE_TIMEOUT_S
from gpuconf.doctor.finding import Finding
from gpuconf.doctor.live.child import run_child
from gpuconf.doctor.live.findings import findings_of
from gpuconf.doctor.live.outcome import places_to_try_alone
from gpuconf.doctor.live.record import MeasuredRun, Run

# Less than this does not even start TensorFlow, on a slow disk.
_LEAST_S = 10.0


class LiveReport(NamedTuple):
    """The findings, and what was measured, run by run; no run where nothing was tried."""

    findings: tuple[Finding, ...]
    runs: tuple[MeasuredRun, ...] = ()


def measure(
    profile: str | None,
    *,
    timeout_s: float = PROBE_TIMEOUT_S,
    progress: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    python: str = sys.executable,
) -> LiveReport:
    """Have a child do what a training does, on every GPU that ``profile`` means.

    ``profile`` is a name or a path, None for the one that applies anyway.  All of it ends within
    ``timeout_s`` seconds, and some five more where the driver holds on to the child; no process
    of it is left.  ``progress`` is told in a few words what is being tried.

    All cards share one child, as they would share a program: the profile means the same (its
    numbers count the visible cards), TensorFlow starts once, in 5 to 10 s, and trouble that only
    comes with several cards is seen.  Where that goes wrong, each card that did not come through
    gets a child of its own, in which TensorFlow is shown that card alone, so that one broken card
    does not stand for all.

    Raises BackendError where the child cannot be started.
    """
    deadline = time.monotonic() + timeout_s

    def run(only: int | None, limit_s: float) -> Run:
        return run_child(
            profile=profile,
            only=only,
            timeout_s=limit_s,
            progress=progress,
            # A card that hangs must leave time to try the others alone.
            share_if_several=1.0 if only is not None else 0.5,
            environ=environ,
            python=python,
        )

    runs = [run(None, timeout_s)]
    for place in places_to_try_alone(runs[0]):
        left_s = deadline - time.monotonic()
        if left_s >= min(_LEAST_S, timeout_s / 2):
            runs.append(run(place, left_s))
    measured = (MeasuredRun(each.only, each.record.cards, each.record.steps) for each in runs)
    return LiveReport(findings_of(runs), tuple(measured))
