"""The probe child's output, one JSON object per line, and its parser.

Pure.  The child may fail in the middle of a line, and a framework may print anything anywhere, so
other lines are ignored, and missing values are None.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from gpuconf.basics.json_values import UnreadableError, decoded, json_objects
from gpuconf.commands.doctor.live.frameworks import TENSORFLOW, ProbedFramework
from gpuconf.commands.doctor.probe_results import LiveStep, ProbedCard


class Skip(NamedTuple):
    """Why there is nothing to probe; ``is_calm`` is False if the user should see it."""

    reason: str = "there is nothing to probe"
    detail: tuple[str, ...] = ()
    is_calm: bool = True


class LiveRecord(NamedTuple):
    """A child's whole output.

    ``facts`` are versions and the profile's name and ``context``, as text; ``notes`` are settings
    that did not take effect.  ``is_over`` is True if it finished.
    """

    cards: tuple[ProbedCard, ...] = ()
    steps: tuple[LiveStep, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    skip: Skip | None = None
    is_over: bool = False
    framework: ProbedFramework = TENSORFLOW

    def fact(self, name: str) -> str | None:
        """The latest value of a fact; None if the child did not write it."""
        return dict(self.facts).get(name)

    @property
    def steps_to_take(self) -> tuple[str, ...]:
        """The framework's steps, without the one that the child skips."""
        return tuple(step for step in self.framework.steps if step != self.fact("untried"))

    @property
    def unfinished(self) -> LiveStep | None:
        """The step that the child is running, or in which it failed."""
        return next((step for step in self.steps if step.seconds is None), None)


class ChildRun(NamedTuple):
    """A child that ended or was killed.

    ``only`` is the position of its single GPU, or None if it had all GPUs. ``code`` is its exit
    code, negative for a signal, and None if it was killed after its time limit ``timeout_s``.
    ``output`` is its stdout and stderr; a long output is missing its middle. ``is_stuck`` is True
    if even SIGKILL did not end it.
    """

    record: LiveRecord
    output: str = ""
    code: int | None = 0
    timeout_s: float = 0.0
    only: int | None = None
    is_stuck: bool = False


class _Cards(NamedTuple):
    """The line that lists the GPUs."""

    cards: tuple[ProbedCard, ...] = ()


class _Notes(NamedTuple):
    """The line that lists the notes."""

    notes: tuple[str, ...] = ()


def read_record(text: str, framework: ProbedFramework = TENSORFLOW) -> LiveRecord:
    """Parse a child's output so far; never raises."""
    record = LiveRecord(framework=framework)
    for line in json_objects(text):
        change = _CHANGES.get(str(line.get("event")))
        with suppress(UnreadableError):
            record = record if change is None else change(record, line)
    return record


def _begun(record: LiveRecord, line: dict[str, Any]) -> LiveRecord:
    step = decoded(LiveStep, line)._replace(seconds=None)
    return record._replace(steps=(*record.steps, step))


def _ended(record: LiveRecord, line: dict[str, Any]) -> LiveRecord:
    """Replace the started step with the ended one; a missing duration becomes 0."""
    ended = decoded(LiveStep, line)
    begun = LiveStep(ended.step, ended.cards)
    others = (step for step in record.steps if step != begun)
    return record._replace(steps=(*others, ended._replace(seconds=ended.seconds or 0.0)))


def _with_facts(record: LiveRecord, line: dict[str, Any]) -> LiveRecord:
    facts = ((name, str(value)) for name, value in line.items() if name != "event")
    return record._replace(facts=(*record.facts, *facts))


# How each kind of line changes the record.
_CHANGES: dict[str, Callable[[LiveRecord, dict[str, Any]], LiveRecord]] = {
    "begin": _begun,
    "end": _ended,
    "cards": lambda record, line: record._replace(cards=decoded(_Cards, line).cards),
    "facts": _with_facts,
    "notes": lambda record, line: record._replace(notes=decoded(_Notes, line).notes),
    "skip": lambda record, line: record._replace(skip=decoded(Skip, line)),
    "over": lambda record, _: record._replace(is_over=True),
}
