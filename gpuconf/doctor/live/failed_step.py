"""What is known of a step that failed, and why it failed.  Pure values."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.doctor.live.record import LiveRecord
from gpuconf.doctor.measured import ProbedCard, StepError
from gpuconf.messages import headline, read_error
from gpuconf.messages.causes import NOT_GPU


class FailedStep(NamedTuple):
    """What is known of a step that failed: on ``card``, None where it was on several at once.

    ``log`` is what the child wrote to stdout and stderr; ``others`` are the other cards.
    """

    step: str
    error: StepError
    record: LiveRecord
    log: str = ""
    card: ProbedCard | None = None
    others: tuple[ProbedCard, ...] = ()
    only: int | None = None


class Reason(NamedTuple):
    """Why: a summary that goes on after "GPU 0: ", a command to paste, and further lines.

    ``cause`` is one of `gpuconf.messages.causes.CAUSES`.
    """

    summary: str
    fix: str
    detail: tuple[str, ...] = ()
    cause: str = NOT_GPU


def first_line(error: StepError) -> str:
    """The exception in one line, the one that says most, without TensorFlow's brackets."""
    line = headline(error.message, read_error(error.kind, error.message))
    return f"{error.kind}: {line}"[:300] if line else error.kind
