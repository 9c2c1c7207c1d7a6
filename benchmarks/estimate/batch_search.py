"""Find the largest batch that runs, with few tries around a proposal.  Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

# A proposal is good if it runs and is at least this percentage of the largest batch that does.
GOOD_PERCENT = 95
# If the proposal was not good, the maximum distance of the bounds, as a percentage of the lower.
_NEAR_PERCENT = 2


class Bounds(NamedTuple):
    """``runs`` ran, 0 if not even one sample did; ``fails`` failed, None if nothing did."""

    runs: int
    fails: int | None
    tries: int

    @property
    def is_exact(self) -> bool:
        """Whether the largest batch is known exactly."""
        return self.fails == self.runs + 1

    @property
    def most(self) -> int | None:
        """The largest batch that may still run; None if unknown."""
        return None if self.fails is None else self.fails - 1


def search(proposed: int, runs: Callable[[int], bool], *, most: int = 1 << 20) -> Bounds:
    """Bounds of the largest batch for which ``runs`` is true, assuming all smaller ones run too.

    A good proposal takes two tries: it runs, and the batch of which it is just under 95 % does
    not.  Otherwise bisection narrows the bounds.  Nothing above
    ``most`` is tried.
    """
    tried: dict[int, bool] = {}

    def ran(batch: int) -> bool:
        if batch not in tried:
            tried[batch] = runs(batch)
        return tried[batch]

    low, high = _bracket(max(proposed, 1), ran, most)
    good = high is not None and low == proposed
    while high is not None and high - low > _width(low, high, good):
        middle = (low + high) // 2
        low, high = (middle, high) if ran(middle) else (low, middle)
    return Bounds(low, high, len(tried))


def first_too_good(batch: int) -> int:
    """The smallest batch of which ``batch`` is less than 95 %."""
    return batch * 100 // GOOD_PERCENT + 1


def is_good(proposed: int, bounds: Bounds) -> bool | None:
    """Whether the proposal runs and is 95 % of the largest; None if the bounds do not show it."""
    if proposed > bounds.runs:
        return False if bounds.fails is not None and proposed >= bounds.fails else None
    if first_too_good(proposed) <= bounds.runs:
        return False
    most = bounds.most
    return True if most is not None and most < first_too_good(proposed) else None


def _bracket(first: int, ran: Callable[[int], bool], most: int) -> tuple[int, int | None]:
    """A batch that runs, or 0, and a larger one that does not, or None."""
    if ran(first):
        low, high = first, min(first_too_good(first), most)
        while high > low and ran(high):
            low, high = high, min(2 * high, most)
        return low, (high if high > low else None)
    high, low = first, first * GOOD_PERCENT // 100
    while low > 0 and not ran(low):
        low, high = low // 2, low
    return low, high


def _width(low: int, high: int, good: bool) -> int:
    """The maximum distance of the bounds."""
    return high if good else max(1, low * _NEAR_PERCENT // 100)
