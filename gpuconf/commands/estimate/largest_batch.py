"""Finds the largest batch that fits from a line through two peaks, and confirms it by its step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from gpuconf.commands.estimate.phases import MOST_BATCH
from gpuconf.commands.estimate.runner.runner import StepFailedError
from gpuconf.commands.estimate.step import Step

_TRIES = 10
_LEAP = 8  # to the next batch, where the peak does not grow
_CLOSE = 25  # the result may be too small by this part of it
_SMALLER = 20  # by this part, after a batch whose memory was too fragmented
_INFORMED = 2  # guesses after the first batch that failed, before the search halves what is left


class Limit(NamedTuple):
    """How much the allocator may use; a step fits if it leaves ``margin_bytes`` unused."""

    size_bytes: int
    margin_bytes: int = 0

    @property
    def usable_bytes(self) -> int:
        """The limit without the margin."""
        return self.size_bytes - self.margin_bytes

    def fits(self, step: Step) -> bool:
        """Whether the step stays within the limit, and also ran under it if that was tried."""
        return step.memory.runs_in_limit and step.memory.peak_bytes <= self.usable_bytes


Tracer = Callable[[int], Step]


def largest_batch(trace: Tracer, one: Step, other: Step | None, limit: Limit) -> int:
    """Return the largest batch found whose own step fits within the limit; 0 if none does.

    ``one`` and ``other`` are steps at two batch sizes, from which the search starts. Without an
    ``other`` step, the result is the batch size of ``one``, or 0. Each batch is confirmed by its
    own step, and the result is up to 4 % below the largest possible batch, or more if ten tries do
    not get that close.
    """
    if other is None:
        return one.batch_size if limit.fits(one) else 0
    search = _Search(limit)
    search.add(one)
    search.add(other)
    for _ in range(_TRIES):
        if search.is_close:
            break
        batch = search.next_batch()
        try:
            search.add(trace(batch))
        except StepFailedError:  # some kernels abort with more than 2**31 elements
            search.bad = batch
    return search.good


class _Search:
    """The batches tried, with the peaks on both sides: ``good`` fits and ``bad`` does not."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._peaks: dict[int, int] = {}
        self._guesses = 0
        self.good, self.bad = 0, MOST_BATCH + 1

    def add(self, step: Step) -> None:
        """Record whether a step fits."""
        batch = step.batch_size
        self._peaks[batch] = step.memory.peak_bytes
        if not self._limit.fits(step):
            self.bad = min(self.bad, batch)
        elif batch < self.bad:
            self.good = max(self.good, batch)

    @property
    def is_close(self) -> bool:
        """Whether there is no batch left to try, or none that would make a difference."""
        return self.bad - self.good <= max(1, self.good // _CLOSE)

    def next_batch(self) -> int:
        """Return the next batch to try.

        While no batch has failed, it is where the line through the two largest meets the limit, or
        a big jump if the peak does not grow; while none fits, it is where the line through the two
        smallest does. After that, it is where the line through the best batch and the first failed
        one meets the limit, or a slightly smaller batch if the latter failed below the limit
        because memory is fragmented. After two of these guesses, it is the midpoint, since a peak
        need not follow a line.
        """
        tried = sorted(self._peaks)
        if self.bad > MOST_BATCH:
            guess = self._crossing(*tried[-2:], otherwise=_LEAP * tried[-1])
        else:
            middle = (self.good + self.bad) // 2
            is_fragmented = self._peaks.get(self.bad, sys.maxsize) <= self._limit.usable_bytes
            self._guesses += 1
            if self._guesses > _INFORMED and (self.good > 0 or is_fragmented):
                guess = middle
            elif is_fragmented:
                guess = self.bad - max(1, self.bad // _SMALLER)
            else:
                low, high = tried[:2] if self.good == 0 else (self.good, self.bad)
                guess = self._crossing(low, high, otherwise=middle)
        return max(self.good + 1, min(guess, self.bad - 1))

    def _crossing(self, low: int, high: int, *, otherwise: int) -> int:
        """Return where the line through two batches meets the limit, if it rises."""
        if high not in self._peaks or self._peaks[high] <= self._peaks[low]:
            return otherwise
        rise = (self._peaks[high] - self._peaks[low]) / (high - low)
        return int(low + (self._limit.usable_bytes - self._peaks[low]) / rise)
