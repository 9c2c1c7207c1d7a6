"""The live probe: run a child for each framework, again for single cards where need be."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpuconf.children.run import run_recorded
from gpuconf.doctor import PROBE_TIMEOUT_S
from gpuconf.doctor.finding import Finding
from gpuconf.doctor.live.findings import findings_of
from gpuconf.doctor.live.frameworks import TENSORFLOW, ProbedFramework
from gpuconf.doctor.live.outcome import places_to_try_alone
from gpuconf.doctor.live.record import ChildRun, read_record
from gpuconf.doctor.measured import LiveStep, MeasuredRun

# Less than this does not even start a framework, on a slow disk.
_LEAST_S = 10.0
_PATIENCE_S = 5.0  # what is stuck inside the driver ends after it, or never


class LiveReport(NamedTuple):
    """The findings, and what was measured, run by run; no run where nothing was tried."""

    findings: tuple[Finding, ...]
    runs: tuple[MeasuredRun, ...] = ()


def measure(
    profile: str | None,
    *,
    frameworks: Sequence[ProbedFramework] = (TENSORFLOW,),
    timeout_s: float = PROBE_TIMEOUT_S,
    progress: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
    python: str = sys.executable,
) -> LiveReport:
    """Have children do what a training does, on every GPU that ``profile`` means.

    ``profile`` is a name or a path, None for the one that applies anyway.  All of it ends within
    ``timeout_s`` seconds, and some five more where the driver holds on to a child; no process
    of it is left.  ``progress`` hears in a few words what is being tried.

    All cards share one child, as they would share a program: the profile means the same (its
    numbers count the visible cards), the framework starts once, in 2 to 10 s, and trouble that only
    comes with several cards is seen.  Where that goes wrong, each card that did not come through
    gets a child of its own, in which the framework is shown that card alone, so that one broken
    card does not stand for all.

    Raises BackendError where a child cannot be started.
    """
    deadline = time.monotonic() + timeout_s
    findings: list[Finding] = []
    measured: list[MeasuredRun] = []
    for number, framework in enumerate(frameworks, start=1):
        kept_s = min(_LEAST_S * (len(frameworks) - number), timeout_s / 2)
        runs = _run_all(
            framework,
            profile,
            timeout_s=deadline - time.monotonic() - kept_s,
            progress=progress,
            environ=environ,
            python=python,
        )
        findings += findings_of(runs)
        measured += [
            MeasuredRun(run.only, run.record.cards, run.record.steps, framework.package)
            for run in runs
        ]
    return LiveReport(tuple(findings), tuple(measured))


def _run_all(
    framework: ProbedFramework,
    profile: str | None,
    *,
    timeout_s: float,
    progress: Callable[[str], None],
    environ: Mapping[str, str],
    python: str,
) -> list[ChildRun]:
    """The runs of one framework: with all cards, then alone with those that it failed on."""
    deadline = time.monotonic() + timeout_s

    def run(only: int | None, limit_s: float) -> ChildRun:
        return run_child(
            framework=framework,
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
    return runs


def run_child(
    *,
    framework: ProbedFramework = TENSORFLOW,
    profile: str | None,
    only: int | None,
    timeout_s: float,
    progress: Callable[[str], None],
    share_if_several: float = 1.0,
    environ: Mapping[str, str] = os.environ,
    python: str = sys.executable,
) -> ChildRun:
    """Run one child to its end, or for ``timeout_s`` seconds; ``progress`` hears of each step.

    If it finds several cards, only ``share_if_several`` of that time is its own.  Raises
    BackendError where it cannot be started.
    """
    announced = 0

    def watch(text: str) -> float:
        nonlocal announced
        record = read_record(text, framework)
        if len(record.steps) > announced:
            progress(describe(record.steps[-1], framework))
            announced = len(record.steps)
        return timeout_s * share_if_several if len(record.cards) > 1 else timeout_s

    command = [python, "-m", f"{__package__}.program", "--framework", framework.package]
    command += [] if only is None else ["--only", str(only)]
    ended = run_recorded(
        command, _child_environ(environ, profile), watch=watch, patience_s=_PATIENCE_S
    )
    return ChildRun(
        record=read_record(ended.record, framework),
        output=ended.output,
        code=ended.code,
        timeout_s=ended.limit_s if ended.code is None else timeout_s,
        only=only,
        is_stuck=ended.is_stuck,
    )


def _child_environ(environ: Mapping[str, str], profile: str | None) -> dict[str, str]:
    """What the child runs in, where TensorFlow logs the libraries that it cannot load."""
    modules = environ.get("TF_CPP_VMODULE")
    changes = {
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "TF_CPP_VMODULE": f"{modules},dso_loader=1" if modules else "dso_loader=1",
    }
    if profile is not None:
        changes["GPUCONF_PROFILE"] = profile
    return {**environ, **changes}


def describe(step: LiveStep, framework: ProbedFramework) -> str:
    """A step in a few words, for people who wait."""
    if step.step == "start":
        return f"applying the profile, starting {framework.title}"
    where = "GPU" if len(step.cards) == 1 else "GPUs"
    return f"{step.step} on {where} {', '.join(map(str, step.cards))}"
