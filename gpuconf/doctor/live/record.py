"""What the probe's child writes while it works, one JSON object a line, and how it is read.

Pure.  The child may die in the middle of a line, and a framework may write anything anywhere, so
whatever is not a line of ours is passed over, and what is missing is None.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from gpuconf.doctor.live.frameworks import TENSORFLOW, ProbedFramework
from gpuconf.doctor.measured import LiveStep, ProbedCard
from gpuconf.json_values import UnreadableError, decoded, json_objects


class Skip(NamedTuple):
    """Why there is nothing to probe; ``is_calm`` is False where somebody may want to know."""

    reason: str = "there is nothing to probe"
    detail: tuple[str, ...] = ()
    is_calm: bool = True


class LiveRecord(NamedTuple):
    """All that a child wrote.

    ``facts`` are versions and the profile's name and ``context``, as text; ``notes`` are
    settings that did not take effect.  ``is_over`` says that it went to its end.
    """

    cards: tuple[ProbedCard, ...] = ()
    steps: tuple[LiveStep, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    skip: Skip | None = None
    is_over: bool = False
    framework: ProbedFramework = TENSORFLOW

    def fact(self, name: str) -> str | None:
        """The newest value of a fact; None if the child did not come to it."""
        return dict(self.facts).get(name)

    @property
    def steps_to_take(self) -> tuple[str, ...]:
        """The framework's steps without the one that the child leaves out."""
        return tuple(step for step in self.framework.steps if step != self.fact("untried"))

    @property
    def unfinished(self) -> LiveStep | None:
        """The step in which the child still is, or died."""
        return next((step for step in self.steps if step.seconds is None), None)


class ChildRun(NamedTuple):
    """A child that has ended, or was ended.

    ``only`` is the place of its one card, None where it had them all.  ``code`` is its exit code,
    below 0 a signal's number, and None where it was ended because its time, ``timeout_s``, was
    up.  ``output`` is what it wrote to stdout and stderr, the middle cut out of a long one.
    ``is_stuck`` says that not even SIGKILL ended it.
    """

    record: LiveRecord
    output: str = ""
    code: int | None = 0
    timeout_s: float = 0.0
    only: int | None = None
    is_stuck: bool = False


class _Cards(NamedTuple):
    """The line with the cards."""

    cards: tuple[ProbedCard, ...] = ()


class _Notes(NamedTuple):
    """The line with the notes."""

    notes: tuple[str, ...] = ()


def read_record(text: str, framework: ProbedFramework = TENSORFLOW) -> LiveRecord:
    """Read what a child wrote so far; never raise."""
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
    """The step that was begun is replaced by its end, which is one even without a figure."""
    ended = decoded(LiveStep, line)
    begun = LiveStep(ended.step, ended.cards)
    others = (step for step in record.steps if step != begun)
    return record._replace(steps=(*others, ended._replace(seconds=ended.seconds or 0.0)))


def _with_facts(record: LiveRecord, line: dict[str, Any]) -> LiveRecord:
    facts = ((name, str(value)) for name, value in line.items() if name != "event")
    return record._replace(facts=(*record.facts, *facts))


# What each kind of line changes in the record.
_CHANGES: dict[str, Callable[[LiveRecord, dict[str, Any]], LiveRecord]] = {
    "begin": _begun,
    "end": _ended,
    "cards": lambda record, line: record._replace(cards=decoded(_Cards, line).cards),
    "facts": _with_facts,
    "notes": lambda record, line: record._replace(notes=decoded(_Notes, line).notes),
    "skip": lambda record, line: record._replace(skip=decoded(Skip, line)),
    "over": lambda record, _: record._replace(is_over=True),
}
