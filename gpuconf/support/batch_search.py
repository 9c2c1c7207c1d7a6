"""Finds the largest batch that fits: where a line through two measured peaks meets the limit."""

from __future__ import annotations

import sys

MOST_BATCH = 1 << 20
_LEAP = 16  # at most to the next batch, where no peak is notably lower than the last
_NOTABLY = 10  # by this part: what the batch does not decide varies less
_SMALLER = 20  # by this part, after a batch whose memory was too fragmented; twice, four times …
_INFORMED = 2  # guesses after the first batch that failed, before the search halves what is left


class BatchSearch:
    """The batches tried so far, and the next one to try.

    ``good`` is the largest that fits, 0 without any; ``bad`` is the smallest that does not, or
    ``most`` + 1.  The search ends where the largest that fits cannot be larger by more than
    ``good // close``, according to the batches tried.
    """

    def __init__(self, usable_bytes: int, *, close: int, most: int = MOST_BATCH) -> None:
        self._usable_bytes = usable_bytes
        self._close = close
        self._most = most
        self._peaks: dict[int, int] = {}
        self._guesses = self._fragmented = 0
        self.good, self.bad = 0, most + 1

    def add(self, batch: int, peak_bytes: int, *, fits: bool) -> None:
        """Record the peak of a batch that ran; batch 0 is what does not depend on the batch."""
        self._peaks[batch] = peak_bytes
        if not fits:
            self.refuse(batch)
        elif batch < self.bad:
            self.good = max(self.good, batch)

    def refuse(self, batch: int) -> None:
        """Record a batch that does not fit."""
        self.bad = min(self.bad, batch)

    def has_run_below(self, batch: int) -> bool:
        """Whether a smaller batch has run, within the limit or not."""
        return any(0 < tried < batch for tried in self._peaks)

    def next_batch(self) -> int | None:
        """Return the next batch to try; None if none is left, or none that would matter.

        While none has failed, it is where the line through the largest and one with a notably lower
        peak meets the limit, or two to 16 times the largest if there is none; while none fits, that
        through the two smallest, or half the batch.  Then it is where the line through the best and
        the first that failed meets it, twice at most, and then the middle: a peak need not follow a
        line.  If memory was too fragmented for a peak below the limit, it is 5 % less, 10 %, 20 % …
        """
        slack = max(1, self.good // self._close)
        line = self._line()
        if self.bad - self.good <= slack or (self.good > 0 and line < self.good + slack):
            return None
        guess = line if self.bad > self._most else self._below_bad(line)
        return max(self.good + 1, min(guess, self.bad - 1))

    def _below_bad(self, line: int) -> int:
        middle = (self.good + self.bad) // 2
        is_fragmented = self._peaks.get(self.bad, sys.maxsize) <= self._usable_bytes
        if is_fragmented:
            self._fragmented += 1
            smaller = self.bad - max(1, (self.bad << self._fragmented) // (2 * _SMALLER))
            return max(smaller, middle)
        self._guesses += 1
        if self._guesses > _INFORMED and self.good > 0:
            return middle
        if self.good == 0 and len(self._peaks) > 1:
            return self._crossing(*sorted(self._peaks)[:2], otherwise=middle)
        return self._crossing(self.good, self.bad, otherwise=min(line, middle))

    def _line(self) -> int:
        """Return where the line through those that fit meets the limit, or a leap."""
        if self.good == 0:
            return self._most
        fitting = sorted(batch for batch in self._peaks if batch <= self.good)
        notable = self._peaks[self.good] * (_NOTABLY - 1) // _NOTABLY
        lower = [batch for batch in fitting if self._peaks[batch] <= notable]
        leap = _LEAP * self.good
        if lower:
            return self._crossing(lower[-1], self.good, otherwise=leap)
        guess = self._crossing(fitting[0], self.good, otherwise=leap)
        return max(2 * self.good, min(guess, leap))

    def _crossing(self, low: int, high: int, *, otherwise: int) -> int:
        """Return where the line through two batches meets the limit, if both ran and it rises."""
        small, large = self._peaks.get(low), self._peaks.get(high)
        if small is None or large is None or large <= small:
            return otherwise
        return int(low + (self._usable_bytes - small) * (high - low) / (large - small))
