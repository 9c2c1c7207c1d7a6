"""The story told: what was allocated, what failed, and why it no longer does. Pure text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from gpuconf.demo.runner import Run
from gpuconf.demo.story import FIRST_NEEDS_MIB, HOLD, NINETY, PROFILE, SECOND_NEEDS_MIB, Half
from gpuconf.units import mib

_WIDTH = 100
_FOLDER = re.compile(r"/\S*/(?=with_)")  # of the scripts' copies
_INDENT = "   "


def before_lines(half: Half) -> list[str]:
    """The half without gpuconf."""
    return [
        f"1. {HOLD} needs {FIRST_NEEDS_MIB} MiB. TensorFlow takes {_size(half.taken_bytes)} "
        f"of the {_size(half.free_bytes)} that were free.",
        f"2. A second {HOLD} beside it needs {SECOND_NEEDS_MIB} MiB: {_outcome(half.second)}",
        f"3. {NINETY} alone asks for 90 % of the card: {_refusal(half.ninety)}",
    ]


def after_lines(half: Half) -> list[str]:
    """The half with the line."""
    return [
        f"1. {HOLD}: {_outcome(half.first)} TensorFlow holds {_size(half.taken_bytes)} and "
        f"grows as needed, to {_limits(half.first)} at most.",
        f"2. A second {HOLD} beside it: {_outcome(half.second)} Its limit: {_limits(half.second)}.",
        f"3. {NINETY} beside it: {_outcome(half.ninety)} Its limit: {_limits(half.ninety)}.",
        *(_quoted(line) for line in _said(half.ninety)),
    ]


def why_lines(arithmetic: Sequence[str]) -> list[str]:
    """Why the same scripts run now, with the plan's own sum."""
    return [
        "TensorFlow's default is to take all that is free, from the first tensor on, and a",
        "fraction is taken of the card's total, whatever others hold. The profile",
        f"{PROFILE} gives each process a limit computed from what is free at that moment:",
        *(f"{_INDENT}{line}" for line in arithmetic),
        "and allow_growth, so that it holds only what it has needed so far. What is kept free is",
        "for the display, and for what no limit covers: the CUDA context and the handles of cuDNN",
        "and cuBLAS. Without it a real card says CUDNN_STATUS_ALLOC_FAILED, which a simulated card",
        "cannot show.",
    ]


def holds(before: Half, after: Half) -> bool:
    """Whether the story came out as the README tells it."""
    died = before.second.code != 0
    return died and all(run.code == 0 for run in (after.first, after.second, after.ninety))


def _outcome(run: Run) -> str:
    if run.code == 0:
        return "runs."
    ended = f"exit code {run.code}" if run.code > 0 else f"signal {-run.code}"
    error = run.last_error.removeprefix("tensorflow.python.framework.errors_impl.")
    return f"dies ({ended}, after {run.seconds:.0f} s):\n{_quoted(error)}"


def _refusal(run: Run) -> str:
    if run.refusals:
        others = len(run.refusals) - 1
        ladder = f", then {others} smaller tries" if others else ""
        end = ", then TensorFlow takes less, and runs" if run.code == 0 else ""
        return f"the driver refuses{ladder}{end}:\n{_quoted(run.refusals[0])}"
    return f"{_outcome(run)} This card has 90 % free; on a crowded one it fails."


def _limits(run: Run) -> str:
    return " + ".join(f"{mb} MiB" for mb in run.created.values()) or "unknown"


def _said(run: Run) -> list[str]:
    lines = [line for line in run.log.splitlines() if line.startswith("gpuconf: Session")]
    return [_FOLDER.sub("", line) for line in lines]


def _quoted(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _size(size_bytes: int | None) -> str:
    return "an unknown amount" if size_bytes is None else mib(size_bytes)
