"""The live probe: runs a child for each framework, and again for single GPUs if needed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpuconf.basics.environment import NO_RESERVE_VARIABLE
from gpuconf.commands.doctor import PROBE_TIMEOUT_S
from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.live.findings import findings_of
from gpuconf.commands.doctor.live.frameworks import TENSORFLOW, ProbedFramework
from gpuconf.commands.doctor.live.outcome import places_to_try_alone
from gpuconf.commands.doctor.live.record import ChildRun, read_record
from gpuconf.commands.doctor.probe_results import LiveStep, MeasuredRun
from gpuconf.support.children.run import run_recorded

# A framework on a slow disk does not even start in less time.
_LEAST_S = 10.0
_PATIENCE_S = 5.0  # a process stuck in the driver ends within this time, or never


class LiveReport(NamedTuple):
    """The findings, and the measurements, run by run; no runs if nothing was tried."""

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
    """Have child processes do the work of a training run on every GPU that ``profile`` uses.

    ``profile`` is a name or a path; None means the one that applies anyway.  The probe ends within
    ``timeout_s`` seconds, plus about five if the driver blocks a child; it leaves no process
    behind. ``progress`` receives short descriptions of what is being tried.

    All GPUs share one child, as in a normal program: the profile means the same thing (its numbers
    refer to the visible GPUs), the framework starts once, in 2 to 10 s, and problems that need
    several GPUs show up. If that fails, each GPU that did not pass gets its own child, in which the
    framework sees only that GPU, so that one broken GPU does not hide the others.

    Raises BackendError if a child cannot be started.
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
    """The runs of one framework: with all GPUs, then alone for each GPU that failed."""
    deadline = time.monotonic() + timeout_s

    def run(only: int | None, limit_s: float) -> ChildRun:
        return run_child(
            framework=framework,
            profile=profile,
            only=only,
            timeout_s=limit_s,
            progress=progress,
            # If a GPU hangs, enough time must remain to try the others alone.
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
    """Run one child to its end, or for ``timeout_s`` seconds; reports each step to ``progress``.

    If it finds several GPUs, it gets only ``share_if_several`` of that time.  Raises BackendError
    if it cannot be started.
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
    """The child's environment, in which TensorFlow logs libraries that it cannot load."""
    modules = environ.get("TF_CPP_VMODULE")
    changes = {
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "TF_CPP_VMODULE": f"{modules},dso_loader=1" if modules else "dso_loader=1",
        NO_RESERVE_VARIABLE: "1",  # what is in use next to the tensors shall be the context
    }
    if profile is not None:
        changes["GPUCONF_PROFILE"] = profile
    return {**environ, **changes}


def describe(step: LiveStep, framework: ProbedFramework) -> str:
    """A short description of a step, for people who are waiting."""
    if step.step == "start":
        return f"applying the profile, starting {framework.title}"
    where = "GPU" if len(step.cards) == 1 else "GPUs"
    return f"{step.step} on {where} {', '.join(map(str, step.cards))}"
