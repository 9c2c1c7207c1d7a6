"""A failed step and the reason for its failure.  Pure values."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuconf.commands.doctor.live.record import LiveRecord
from gpuconf.commands.doctor.probe_results import ProbedCard, StepError
from gpuconf.support.failures import headline, read, read_error
from gpuconf.support.failures.causes import NOT_GPU

# The last messages of the C library, C++ and the framework, printed above Python's.
_LAST_WORDS = re.compile(
    r"^terminate called|^what\(\):|^(?:free|malloc|realloc)\w*\(\):|corrupt|Check failed:"
)


class FailedStep(NamedTuple):
    """A failed step on ``card``; None if it ran on several at once.

    ``log`` is the child's stdout and stderr.
    """

    step: str
    error: StepError
    record: LiveRecord
    log: str = ""
    card: ProbedCard | None = None
    only: int | None = None


class Reason(NamedTuple):
    """The reason: a summary that continues "GPU 0: ", a command to paste, and further lines.

    ``cause`` is one of `gpuconf.support.failures.causes.CAUSES`.
    """

    summary: str
    fix: str
    detail: tuple[str, ...] = ()
    cause: str = NOT_GPU


def first_line(error: StepError) -> str:
    """The most informative line of the exception, without the framework's brackets."""
    line = headline(error.message, read_error(error.kind, error.message))
    return f"{error.kind}: {line}"[:300] if line else error.kind


def last_words(output: str, *, most: int = 4) -> tuple[str, ...]:
    """The last output lines that explain why the process ended, or else simply the last ones."""
    reading = read(output)
    ends = (reading.facts.exception, reading.facts.cut_off)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = [line.text for line in reading.evidence] + [end for end in ends if end is not None]
    said += [line for line in lines if _LAST_WORDS.search(line)]
    places = {line: place for place, line in enumerate(lines)}
    said = sorted(set(said), key=lambda line: places.get(line, len(lines)))
    return tuple(line[:300] for line in (said or lines[-2:])[-most:])
