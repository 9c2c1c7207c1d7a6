"""The largest batch that fits: looked for between two traces, then traced itself."""

from __future__ import annotations

from collections.abc import Callable

from gpuconf.footprint.phases import MOST_BATCH, are_alike, live_bytes, scaled
from gpuconf.footprint.replay import Limit, fits
from gpuconf.footprint.step import Step

_MOST_TRACES = 8
_STRAIGHT = 0.98  # of what two traces foretell; where a third one says less, more may fit

Tracer = Callable[[int], Step]


def largest_batch(trace: Tracer, one: Step, other: Step | None, limit: Limit) -> int:
    """The largest batch whose step runs under the limit, as its own trace says; 0 for none.

    ``one`` and ``other`` are traces at two batch sizes, between and beyond which it is looked for.
    Where there is no other batch size, it is that of ``one``, or 0.
    """
    if other is None:
        return one.batch_size if fits(one, limit) else 0
    if not are_alike(one, other):
        return _by_tracing(trace, limit)
    largest = _confirmed(trace, one, other, limit)
    known = max((step.batch_size for step in (one, other) if fits(step, limit)), default=0)
    # Where pieces lie badly a smaller batch may not run that a larger one does.
    return largest if known <= largest else _further(trace, known, limit)


def bisected(runs: Callable[[int], bool], good: int, bad: int, *, share: int | None = None) -> int:
    """The largest number that runs, between ``good``, which does, and ``bad``, which does not.

    With ``share``, a smaller one that is off by no more than that part of it, such as a 50th.
    """
    while bad - good > (1 if share is None else max(1, good // share)):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if runs(middle) else (good, middle)
    return good


def _by_tracing(trace: Tracer, limit: Limit) -> int:
    return _largest(lambda batch: fits(trace(batch), limit), start=8)


def _largest(runs: Callable[[int], bool], *, start: int) -> int:
    """The largest number for which it runs, if it runs for all smaller ones."""
    if not runs(1):
        return 0
    good, bad = 1, max(2, start)
    while bad <= MOST_BATCH and runs(bad):
        good, bad = bad, bad * 2
    return MOST_BATCH if bad > MOST_BATCH else bisected(runs, good, bad)


def _confirmed(trace: Tracer, one: Step, other: Step, limit: Limit) -> int:
    """The largest between the two traces or beyond, if a trace of its own agrees, or near it."""

    def runs(batch: int) -> bool:
        return fits(scaled(one, other, batch), limit)

    batch = _largest(runs, start=other.batch_size)
    for _ in range(_MOST_TRACES):
        if batch < 1:
            break
        traced = trace(batch)
        if fits(traced, limit):
            is_straight = _asked(traced) > _STRAIGHT * _asked(scaled(one, other, batch))
            return batch if is_straight else _further(trace, batch, limit)
        batch -= max(1, batch // 50)
    return _by_tracing(trace, limit)


def _asked(step: Step) -> int:
    return step.resident_bytes + max(live_bytes(step), default=0)


def _further(trace: Tracer, batch: int, limit: Limit) -> int:
    """The largest above one that runs, to a twentieth, by traces alone."""

    def runs(batch: int) -> bool:
        return fits(trace(batch), limit)

    good, bad = batch, batch * 2
    while bad <= MOST_BATCH and runs(bad):
        good, bad = bad, bad * 2
    return bisected(runs, good, bad, share=20)
