"""The phases that a program ran, with the peak of each, and whether memory grows.  Pure.

The agent records the phases (fit, validation, a custom loop, a model call, …) and marks their
changes on the tape, which holds the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from gpuconf.basics.json_shape import Bytes, Count
from gpuconf.basics.json_values import decoded
from gpuconf.basics.units import KIB, sized
from gpuconf.commands.rehearse.runs import RunResult

BUILD, TRAIN, VALIDATE, RUN = "build", "train", "validate", "run"
EVALUATE, PREDICT, CALL = "evaluate", "predict", "call"
COMPUTING = (TRAIN, VALIDATE, EVALUATE, PREDICT, CALL)
_FEWEST_INCREASES = 3  # in a row, to be reported as growth
_SMALLEST_INCREASE_BYTES = 64 * KIB  # per step; a list of losses keeps 256 B of each


class AgentPhase(NamedTuple):
    """A phase as recorded by the agent."""

    number: int
    kind: str
    what: str
    where: str | None = None
    batch: int | None = None
    steps: int = 0
    of: int | None = None
    is_cut: bool = False
    in_use: tuple[int, ...] = ()
    error: str | None = None


class RanPhase(NamedTuple):
    """A part of the program."""

    kind: str
    """The activity: build, train, validate, evaluate, predict, call (of a model) or run."""
    what: str
    """A description in words."""
    where: str | None
    """The line of the script, or of a notebook's cell."""
    batch: Count | None
    """The batch size; None if there is none, or it is unknown."""
    steps: Count
    """The number of training steps done."""
    of: Count | None
    """The number of steps that the script would have done; None if it is unknown."""
    is_cut: bool
    """Whether it was shortened."""
    gpu: Count | None
    """TensorFlow's number of the GPU that came closest to its limit in this phase."""
    peak_bytes: Bytes | None
    """The most memory in use on that GPU in this phase; None without a memory trace."""
    limit_bytes: Bytes | None
    """The most memory that TensorFlow may allocate on that GPU."""
    growth_bytes: Bytes | None
    """The growth of memory with each of the last steps; None if it did not grow."""
    error: str | None
    """The error in this phase; None if there was none."""

    @property
    def place(self) -> str:
        """The description and the place: ``fit of sequential at train.py:12``."""
        return self.what if self.where is None else f"{self.what} at {self.where}"

    @property
    def steps_left(self) -> int | None:
        """The number of further steps until the growth reaches the limit."""
        if not self.growth_bytes or self.limit_bytes is None or self.peak_bytes is None:
            return None
        return max(0, self.limit_bytes - self.peak_bytes) // self.growth_bytes


def phases_of(run: RunResult) -> tuple[RanPhase, ...]:
    """All phases of a run, in the order in which they started."""
    noted = [decoded(AgentPhase, each) for each in run.trainer.get("phases", ())]
    trained = [phase for phase in noted if phase.kind == TRAIN]
    if len(trained) == 1 and trained[0].batch is None:  # a generator's comes with its first
        used = (run.trainer.get("batch") or {}).get("used")
        noted = [each._replace(batch=used) if each in trained else each for each in noted]
    return tuple(_ran(phase, run) for phase in noted)


def failed_phase(phases: Sequence[RanPhase]) -> RanPhase | None:
    """The last phase with an error."""
    return next((phase for phase in reversed(phases) if phase.error is not None), None)


def what_ran(phases: Sequence[RanPhase]) -> str | None:
    """The computation in a few words; None if there was none."""
    trained = [phase for phase in phases if phase.kind == TRAIN and phase.steps]
    parts = []
    if len(trained) == 1:
        parts.append(f"{_steps(trained[0])} of {trained[0].place}")
    elif trained:
        parts.append(
            f"{_spread([phase.steps for phase in trained])} of {len(trained)} training runs"
        )
    for kind, one, many in (
        (VALIDATE, "validation", "validations"),
        (EVALUATE, "evaluation", "evaluations"),
        (PREDICT, "prediction", "predictions"),
        (CALL, "call of a model", "calls of models"),
    ):
        count = sum(phase.kind == kind for phase in phases)
        if count:
            parts.append(one if count == 1 else f"{count} {many}")
    return _listed(parts) if parts else None


def growing(phases: Sequence[RanPhase]) -> list[str]:
    """A warning for each training run whose memory grows with every step."""
    lines = []
    for phase in phases:
        if phase.growth_bytes is None:
            continue
        line = f"memory grows by {sized(phase.growth_bytes)} a step in {phase.place}"
        left = phase.steps_left
        lines.append(line if left is None else f"{line}: full after about {left} more steps")
    return lines


def _ran(phase: AgentPhase, run: RunResult) -> RanPhase:
    usages = run.tape.usages if run.tape is not None else ()
    peaks = [
        (dict(usage.phase_peaks)[phase.number], usage)
        for usage in usages
        if phase.number in dict(usage.phase_peaks)
    ]
    peak, usage = max(
        peaks, key=lambda each: each[0] / max(each[1].limit_bytes, 1), default=(None, None)
    )
    return RanPhase(
        kind=phase.kind,
        what=_in_words(phase),
        where=phase.where,
        batch=phase.batch,
        steps=phase.steps,
        of=phase.of,
        is_cut=phase.is_cut,
        gpu=None if usage is None else usage.index,
        peak_bytes=peak,
        limit_bytes=None if usage is None else usage.limit_bytes,
        growth_bytes=growth_of(phase.in_use),
        error=phase.error,
    )


def growth_of(in_use: Sequence[int]) -> int | None:
    """How much memory grows with each of the last steps: the smallest increase among them.

    None unless at least three steps in a row, including the last one, each used more than the one
    before.  The first step is ignored, because it creates the optimizer's state.
    """
    after = list(in_use)[1:]
    increases = [later - earlier for earlier, later in pairwise(after)]
    last = []
    for increase in reversed(increases):
        if increase < _SMALLEST_INCREASE_BYTES:
            break
        last.append(increase)
    return min(last) if len(last) >= _FEWEST_INCREASES else None


def _in_words(phase: AgentPhase) -> str:
    """``fit of m``, ``validation of m``, ``call of m``."""
    how = {VALIDATE: "validation", CALL: "call"}.get(phase.kind)
    return phase.what if how is None else f"{how} of {phase.what.rpartition(' of ')[2]}"


def _steps(phase: RanPhase) -> str:
    of = "" if phase.of is None else f" of {phase.of}"
    return f"{phase.steps}{of} step{'' if phase.steps == 1 and not of else 's'}"


def _spread(steps: Sequence[int]) -> str:
    low, high = min(steps), max(steps)
    if low == high:
        return f"{low} step{'' if low == 1 else 's'} each"
    return f"{low} to {high} steps"


def _listed(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
