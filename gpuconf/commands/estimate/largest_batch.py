"""Finds the largest batch that fits: a line through two known peaks, confirmed by its own step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from gpuconf.commands.estimate.phases import MOST_BATCH
from gpuconf.commands.estimate.runner.runner import KernelAbortedError, TooLargeError
from gpuconf.commands.estimate.step import Step
from gpuconf.errors import BackendError

_TRIES = 10
_LEAP = 16  # at most to the next batch, where the peak grows by less than a part
_GROWTH = 10  # this part: what the batch does not decide varies less
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
        """Whether the step needs no more, and has run under the limit if that was tried."""
        return step.memory.runs_in_limit and step.memory.peak_bytes <= self.usable_bytes


Tracer = Callable[[int], Step]


class LargestBatch(NamedTuple):
    """The largest batch that fits, 0 if none does, and a note about what decided it."""

    size: int
    notes: tuple[str, ...] = ()


def largest_batch(trace: Tracer, one: Step, other: Step | None, limit: Limit) -> LargestBatch:
    """Return the largest batch found whose own step fits the limit; 0 if none does.

    ``one`` and ``other`` are steps at two batch sizes, from which the search starts.  Without an
    ``other`` batch size, the result is that of ``one``, or 0.  A batch is confirmed by its step,
    and the result is up to 4 % below the largest, or more if ten tries do not get as close.

    A batch does not fit either if a kernel aborts there, but not at a smaller batch.  Raises
    BackendError if a step fails for any other reason.
    """
    if other is None:
        return LargestBatch(one.batch_size if limit.fits(one) else 0)
    aborted = None
    search = _Search(limit)
    search.add(one)
    search.add(other)
    for _ in range(_TRIES):
        if search.is_close:
            break
        batch = search.next_batch()
        try:
            search.add(trace(batch))
        except TooLargeError:
            search.bad = batch
        except KernelAbortedError:
            if not search.has_run_below(batch):
                raise
            search.bad = aborted = batch
        except BackendError as error:
            raise BackendError(f"at batch {batch}, {error.message}", hint=error.hint) from error
    if search.bad == aborted:
        note = f"a kernel aborts at batch {aborted}, which therefore does not fit under any limit"
        return LargestBatch(search.good, (note,))
    return LargestBatch(search.good)


class _Search:
    """The batches tried: ``good`` fits and ``bad`` does not, with the peaks of both sides."""

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
        """Whether no batch is left to try, or none that would matter."""
        return self.bad - self.good <= max(1, self.good // _CLOSE)

    def has_run_below(self, batch: int) -> bool:
        """Whether a smaller batch has run, within the limit or not."""
        return batch > min(self._peaks)

    def next_batch(self) -> int:
        """Return the next batch to try.

        While none has failed, it is where the line through the two largest meets the limit, but at
        most a leap if the peak hardly grows; while none fits, that through the two smallest.  Then
        it is where the line through the best and the first that failed meets it, or a slightly
        smaller batch if that one failed below the limit because memory is fragmented.  After two of
        these, it is the middle: a peak need not follow a line.
        """
        tried = sorted(self._peaks)
        if self.bad > MOST_BATCH:
            low, high = tried[-2:]
            leap = _LEAP * high
            guess = self._crossing(low, high, otherwise=leap)
            if _GROWTH * (self._peaks[high] - self._peaks[low]) < self._peaks[high]:
                guess = min(guess, leap)
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
