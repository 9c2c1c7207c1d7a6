"""What the probe's child writes while it works, one JSON object a line, and how it is read.

Pure.  The child may die in the middle of a line, and TensorFlow may write anything anywhere, so
whatever is no line of ours is passed over, and what is missing is None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpuconf.doctor.report import Holder

STEPS = ("start", "context", "matmul", "convolution", "fit")

_BEYOND = 2.0**63  # no figure of ours; such an integer would not go into a float


class Memory(NamedTuple):
    """What is taken on one card at one moment, in bytes.  Unknown is None.

    ``used_bytes`` and ``free_bytes`` are the whole card's and ``own_bytes`` is what the probe's
    process holds, by NVML; ``current_bytes`` and ``peak_bytes`` are what TensorFlow's allocator
    has given out to tensors, the peak since the step began.
    """

    used_bytes: int | None = None
    free_bytes: int | None = None
    own_bytes: int | None = None
    current_bytes: int | None = None
    peak_bytes: int | None = None


class ProbedCard(NamedTuple):
    """A card that the probe is about: ``place`` is TensorFlow's number for it.

    ``free_bytes`` was free before the probe, ``limit_bytes`` is what the profile lets TensorFlow
    take of it (None: no limit), at once unless ``allow_growth``; ``holders`` held memory before.
    """

    place: int
    label: str
    uuid: str | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    limit_bytes: int | None = None
    allow_growth: bool | None = None
    holders: tuple[Holder, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``, where the holders stand under ``gpus``."""
        return {name: value for name, value in self._asdict().items() if name != "holders"}


class StepError(NamedTuple):
    """What a step raised: the exception's type, its text, and a GpuconfError's hint."""

    kind: str
    message: str
    hint: str | None = None


class LiveStep(NamedTuple):
    """One step, on the cards at the places ``cards``, with memory before and after for each.

    ``seconds`` is None for a step that did not end.
    """

    step: str
    cards: tuple[int, ...] = ()
    seconds: float | None = None
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()
    error: StepError | None = None

    @property
    def has_passed(self) -> bool:
        """Whether it ended without an error."""
        return self.seconds is not None and self.error is None

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return {
            **self._asdict(),
            "cards": list(self.cards),
            "before": [memory._asdict() for memory in self.before],
            "after": [memory._asdict() for memory in self.after],
            "error": None if self.error is None else self.error._asdict(),
        }


class Skip(NamedTuple):
    """Why there is nothing to probe; ``is_calm`` is False where somebody may want to know."""

    reason: str
    detail: tuple[str, ...] = ()
    is_calm: bool = True


class Record(NamedTuple):
    """All that a child wrote.

    ``facts`` are versions and the profile's name and ``keep_free``, as text; ``notes`` are
    settings that did not take effect.  ``is_over`` says that it went to its end.
    """

    cards: tuple[ProbedCard, ...] = ()
    steps: tuple[LiveStep, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    skip: Skip | None = None
    is_over: bool = False

    def fact(self, name: str) -> str | None:
        """The newest value of a fact; None if the child did not come to it."""
        return dict(self.facts).get(name)

    @property
    def unfinished(self) -> LiveStep | None:
        """The step in which the child still is, or died."""
        return next((step for step in self.steps if step.seconds is None), None)


class Run(NamedTuple):
    """A child that has ended, or was ended.

    ``only`` is the place of its one card, None where it had them all.  ``code`` is its exit code,
    below 0 a signal's number, and None where it was ended because its time, ``timeout_s``, was
    up.  ``output`` is what it wrote to stdout and stderr, the middle cut out of a long one.
    ``is_stuck`` says that not even SIGKILL ended it.
    """

    record: Record
    output: str = ""
    code: int | None = 0
    timeout_s: float = 0.0
    only: int | None = None
    is_stuck: bool = False


class MeasuredRun(NamedTuple):
    """What one child measured: on its one card ``only``, or on all ``cards`` where that is None."""

    only: int | None
    cards: tuple[ProbedCard, ...]
    steps: tuple[LiveStep, ...]

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return {
            "only": self.only,
            "cards": [card.as_dict() for card in self.cards],
            "steps": [step.as_dict() for step in self.steps],
        }


def read_record(text: str) -> Record:
    """Read what a child wrote so far; never raise."""
    record = Record()
    for line in _objects(text):
        kind = line.get("event")
        if kind == "begin":
            record = record._replace(steps=(*record.steps, _step(line)))
        elif kind == "end":
            record = record._replace(steps=_with_end(record.steps, _step(line)))
        elif kind == "cards":
            cards = tuple(_card(each) for each in _dicts(line.get("cards")))
            record = record._replace(cards=cards)
        elif kind == "facts":
            facts = ((name, str(value)) for name, value in line.items() if name != "event")
            record = record._replace(facts=(*record.facts, *facts))
        elif kind == "notes":
            record = record._replace(notes=_texts(line.get("notes")))
        elif kind == "skip":
            record = record._replace(skip=_skip(line))
        elif kind == "over":
            record = record._replace(is_over=True)
    return record


def _with_end(steps: tuple[LiveStep, ...], ended: LiveStep) -> tuple[LiveStep, ...]:
    """``steps`` with the one that was begun replaced by its end."""
    begun = LiveStep(ended.step, ended.cards)
    return (*(step for step in steps if step != begun), ended)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _step(line: dict[str, Any]) -> LiveStep:
    error = line.get("error")
    return LiveStep(
        step=str(line.get("step")),
        cards=_whole_numbers(line.get("cards")),
        seconds=_seconds(line),
        before=tuple(_memory(each) for each in _dicts(line.get("before"))),
        after=tuple(_memory(each) for each in _dicts(line.get("after"))),
        error=_error(error) if isinstance(error, dict) else None,
    )


def _seconds(line: dict[str, Any]) -> float | None:
    """The seconds of an ``end``, which is one even without a figure."""
    if line.get("event") != "end":
        return None
    value = line.get("seconds")
    # NaN and infinity, which json reads, are not below either.
    return float(value) if isinstance(value, (int, float)) and 0 <= value < _BEYOND else 0.0


def _memory(fields: dict[str, Any]) -> Memory:
    return Memory(*(_whole(fields.get(name)) for name in Memory._fields))


def _card(fields: dict[str, Any]) -> ProbedCard:
    growth = fields.get("allow_growth")
    holders = _dicts(fields.get("holders"))
    place = _whole(fields.get("place")) or 0
    return ProbedCard(
        place=place,
        label=_text(fields.get("label")) or f"GPU {place}",
        uuid=_text(fields.get("uuid")),
        total_bytes=_whole(fields.get("total_bytes")),
        free_bytes=_whole(fields.get("free_bytes")),
        limit_bytes=_whole(fields.get("limit_bytes")),
        allow_growth=growth if isinstance(growth, bool) else None,
        holders=tuple(_holder(each) for each in holders if _whole(each.get("pid")) is not None),
    )


def _holder(fields: dict[str, Any]) -> Holder:
    return Holder(
        pid=_whole(fields.get("pid")) or 0,
        name=_text(fields.get("name")),
        used_bytes=_whole(fields.get("used_bytes")),
    )


def _error(fields: dict[str, Any]) -> StepError:
    return StepError(
        kind=_text(fields.get("kind")) or "an error",
        message=_text(fields.get("message")) or "",
        hint=_text(fields.get("hint")),
    )


def _skip(line: dict[str, Any]) -> Skip:
    reason = _text(line.get("reason")) or "there is nothing to probe"
    return Skip(reason, _texts(line.get("detail")), is_calm=line.get("is_calm") is not False)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else ()


def _whole_numbers(value: object) -> tuple[int, ...]:
    entries = value if isinstance(value, list) else []
    return tuple(number for number in map(_whole, entries) if number is not None)


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _BEYOND else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
