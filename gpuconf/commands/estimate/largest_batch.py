"""Finds the largest batch that fits, by interpolating between two traces and then tracing it."""

from __future__ import annotations

from collections.abc import Callable

from gpuconf.commands.estimate.phases import MOST_BATCH, are_alike, live_bytes, scaled
from gpuconf.commands.estimate.replay import Limit, fits
from gpuconf.commands.estimate.step import Step

_STRAIGHT = 0.98  # of the interpolated memory; if a trace needs less, a larger batch may fit

Tracer = Callable[[int], Step]


def largest_batch(trace: Tracer, one: Step, other: Step | None, limit: Limit) -> int:
    """Return the largest batch whose own trace runs under the limit; 0 if none does.

    ``one`` and ``other`` are traces at two batch sizes, from which the search starts.  Without an
    ``other`` batch size, the result is that of ``one``, or 0.
    """
    if other is None:
        return one.batch_size if fits(one, limit) else 0
    if not are_alike(one, other):
        return _by_tracing(trace, limit)
    largest = _confirmed(trace, one, other, limit)
    known = max((step.batch_size for step in (one, other) if fits(step, limit)), default=0)
    # With unfavorable fragmentation, a smaller batch may fail where a larger one runs.
    return largest if known <= largest else _further(trace, known, limit)


def bisected(runs: Callable[[int], bool], good: int, bad: int, *, share: int | None = None) -> int:
    """Return the largest number that runs, between ``good`` (runs) and ``bad`` (does not).

    With ``share``, the result may be too small by that fraction of it, such as a 50th.
    """
    while bad - good > (1 if share is None else max(1, good // share)):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if runs(middle) else (good, middle)
    return good


def _by_tracing(trace: Tracer, limit: Limit) -> int:
    return _largest(lambda batch: fits(trace(batch), limit), start=8)


def _largest(runs: Callable[[int], bool], *, start: int) -> int:
    """Return the largest number that runs, assuming that all smaller ones run too."""
    if not runs(1):
        return 0
    good, bad = 1, max(2, start)
    while bad <= MOST_BATCH and runs(bad):
        good, bad = bad, bad * 2
    return MOST_BATCH if bad > MOST_BATCH else bisected(runs, good, bad)


def _confirmed(trace: Tracer, one: Step, other: Step, limit: Limit) -> int:
    """Return the largest batch expected from two traces, if its own trace fits, or a smaller one.

    Retreats in growing steps until a trace fits, then bisects to a fiftieth.
    """
    expected = _largest(
        lambda batch: fits(scaled(one, other, batch), limit), start=other.batch_size
    )
    good = max(1, expected)
    bad, retreat = good + 1, max(1, good // 50)
    while not fits(traced := trace(good), limit):
        if good == 1:
            return 0
        bad, good, retreat = good, max(good - retreat, good // 2), retreat * 2
    if _asked(traced) <= _STRAIGHT * _asked(scaled(one, other, good)):
        return _further(trace, good, limit)
    return bisected(lambda batch: fits(trace(batch), limit), good, bad, share=50)


def _asked(step: Step) -> int:
    return step.resident_bytes + max(live_bytes(step), default=0)


def _further(trace: Tracer, batch: int, limit: Limit) -> int:
    """Return a larger batch that runs, within a twentieth of the largest, using only traces."""

    def runs(batch: int) -> bool:
        return fits(trace(batch), limit)

    good, bad = batch, batch * 2
    while bad <= MOST_BATCH and runs(bad):
        good, bad = bad, bad * 2
    return bisected(runs, good, bad, share=20)
