"""The story of ``gpuconf demo``: what was allocated, what failed, and why it no longer does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gpuconf.basics.units import sized
from gpuconf.commands.demo.runner import ScriptRun
from gpuconf.commands.demo.story import NINETY, PROFILE, TRAIN, ScenarioRuns, learned
from gpuconf.support.reporting.lines import Line

_COPY = re.compile(r"/\S*/with(?:out)?_(?=\w+\.py)")  # of a script, with its folder
_PLACE = re.compile(r'File "\S*/with(?:out)?_(\w+\.py)", line (\d+), in <module>\n +(.+)')
_CAUSE = re.compile(r"OOM when allocating|[Oo]ut of memory|CUDNN|DNN library")
_INDENT = "   "


def lines_of(texts: Iterable[str]) -> Iterator[Line]:
    """Wrap the texts; continuation lines keep the first line's indentation."""
    for text in texts:
        yield Line(text, hang=len(text) - len(text.lstrip(" 0123456789.")))


def before_lines(half: ScenarioRuns) -> list[str]:
    """The output of the half without gpuconf."""
    return [
        f"1. {TRAIN} {_training(half.first)} With its CUDA context it takes "
        f"{sized(half.free_bytes - half.left_bytes)} of the {sized(half.free_bytes)} that were "
        f"free{_peak(half.first)}.",
        *end_lines(half.first),
        f"2. A second {TRAIN} next to it finds {sized(half.left_bytes)}, "
        f"and {outcome(half.second)}",
        *end_lines(half.second),
        f"3. {NINETY} alone requests 90 % of the GPU: {_refusal(half.ninety)}",
        *[_INDENT + line for line in half.ninety.refusals[:1]],
    ]


def after_lines(half: ScenarioRuns, before: ScenarioRuns) -> list[str]:
    """The output of the half with the extra line; unchanged figures are marked."""
    together = f" Both trained at the same time for {half.both_trained_s:.0f} s."
    return [
        f"1. {TRAIN} {_training(half.first, like=before.first)} Its limit: "
        f"{limits_of(half.first)}{_peak(half.first)}.",
        *end_lines(half.first),
        f"2. A second {TRAIN} next to it {_training(half.second, like=half.first)} Its limit: "
        f"{limits_of(half.second)}.{together if half.both_trained_s >= 1 else ''}",
        *end_lines(half.second),
        f"3. {NINETY} next to the first {outcome(half.ninety)} "
        f"Its limit: {limits_of(half.ninety)}.",
        *end_lines(half.ninety),
        *(_INDENT + line for line in _said(half.ninety)),
    ]


def why_lines(left_bytes: int, second: ScriptRun, arithmetic: Sequence[str]) -> list[str]:
    """Explain why the same scripts run now, using the plan's own arithmetic.

    Without gpuconf, ``left_bytes`` were left for the ``second`` program.
    """
    return [
        "By default, TensorFlow takes all free memory as soon as it creates the first tensor. Of "
        f"the {sized(left_bytes)} left, the second process got {limits_of(second)}: its "
        "CUDA context and TensorFlow's reserve are subtracted. And a fraction is a fraction of "
        "the GPU's total, no matter what others use.",
        f"The profile {PROFILE} gives each process its own part, never more than is free at "
        "that moment, and reserves it for as long as the process runs:",
        *(f"{_INDENT}{line}" for line in arithmetic),
        "keep_free is for the display, context for what no limit covers: the CUDA context and the "
        "handles of cuDNN and cuBLAS. Without it the run fails with CUDNN_STATUS_ALLOC_FAILED.",
    ]


def _training(run: ScriptRun, *, like: ScriptRun | None = None) -> str:
    """The result of a training run, shortened if bit-identical to the result of ``like``."""
    if run.result is None or not learned(run):
        return outcome(run)
    result = run.result
    if like is not None and like.result is not None and result["losses"] == like.result["losses"]:
        return "learns, with the same losses to the bit."
    losses = ", ".join(f"{loss:.3f}" for loss in result["losses"])
    return f"learns: loss {losses}; {result['accuracy'] * 100:.0f} % of unseen digits right."


def outcome(run: ScriptRun) -> str:
    """Whether a script ran or failed, as the end of a sentence."""
    if run.code == 0:
        is_training = "accuracy" in (run.result or {})
        return "learns too little." if is_training and not learned(run) else "runs."
    ended = f"exit code {run.code}" if run.code > 0 else f"signal {-run.code}"
    return f"fails ({ended}, after {run.seconds:.0f} s)."


def end_lines(run: ScriptRun) -> list[str]:
    """Where in the script it failed, and why; empty if it survived."""
    if run.code == 0:
        return []
    places = _PLACE.findall(run.log)
    where = [f"{_INDENT}{file}, line {line}: {source}" for file, line, source in places[:1]]
    return [*where, _INDENT + _error(run)]


def _error(run: ScriptRun) -> str:
    """The exception, with its cause, which Keras places below its own traceback."""
    error = run.last_error.removeprefix("tensorflow.python.framework.errors_impl.")
    name, _, rest = error.partition(": ")
    if rest == "Graph execution error:":
        below = run.log.rpartition(run.last_error)[2].splitlines()
        causes = [line.strip() for line in below if _CAUSE.search(line)]
        error = f"{name}: {causes[0]}" if causes else error
    return error


def _refusal(run: ScriptRun) -> str:
    if run.refusals:
        others = len(run.refusals) - 1
        tries = "one smaller try" if others == 1 else f"{others} smaller tries"
        ladder = f", then {tries}" if others else ""
        end = ", then TensorFlow takes less, and runs" if run.code == 0 else ""
        return f"the driver refuses{ladder}{end}:"
    return outcome(run)


def limits_of(run: ScriptRun) -> str:
    """The limit of each device that TensorFlow created."""
    return " + ".join(f"{mb} MiB" for mb in run.created.values()) or "unknown"


def _peak(run: ScriptRun) -> str:
    return "" if run.result is None else f"; at the peak {run.result['peak_mib']} MiB are in use"


def _said(run: ScriptRun) -> list[str]:
    lines = [line for line in run.log.splitlines() if line.startswith("gpuconf: Session")]
    return [_COPY.sub("", line) for line in lines]
