"""What is known of a step that failed, and why it failed.  Pure values."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuconf.doctor.live.record import LiveRecord
from gpuconf.doctor.measured import ProbedCard, StepError
from gpuconf.messages import headline, read, read_error
from gpuconf.messages.causes import NOT_GPU

# What the C library, C++ and the framework say of their end, above what Python says of it.
_LAST_WORDS = re.compile(
    r"^terminate called|^what\(\):|^(?:free|malloc|realloc)\w*\(\):|corrupt|Check failed:"
)


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
    """The exception in one line, the one that says most, without the framework's brackets."""
    line = headline(error.message, read_error(error.kind, error.message))
    return f"{error.kind}: {line}"[:300] if line else error.kind


def last_words(output: str, *, most: int = 4) -> tuple[str, ...]:
    """The last lines of an output that say why it ended, or else its very last ones."""
    reading = read(output)
    ends = (reading.facts.exception, reading.facts.cut_off)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = [line.text for line in reading.evidence] + [end for end in ends if end is not None]
    said += [line for line in lines if _LAST_WORDS.search(line)]
    places = {line: place for place, line in enumerate(lines)}
    said = sorted(set(said), key=lambda line: places.get(line, len(lines)))
    return tuple(line[:300] for line in (said or lines[-2:])[-most:])
