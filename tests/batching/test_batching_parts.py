"""All samples in parts that fit, and what a part that fails has changed put back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuconf.batching.parts import even, in_parts
from gpuconf.batching.size import CardBatch, SizeKey, checked_retries, forget
from gpuconf.errors import UsageError

FULL = "OOM when allocating tensor with shape[9] on /device:GPU:0 by allocator GPU_0_bfc"


class Counted:
    """Numbers that a part adds up, and what they were before it."""

    def __init__(self, fits: int) -> None:
        self.numbers: list[int] = []
        self.tried: list[int] = []
        self._fits = fits
        self._before = 0

    def hold(self) -> None:
        """Note how many there are."""
        self._before = len(self.numbers)

    def put_back(self) -> None:
        """Only those again."""
        del self.numbers[self._before :]

    def run(self, start: int, end: int) -> list[int]:
        """Add these samples; out of memory where they are too many, halfway through."""
        self.tried.append(end - start)
        if end - start > self._fits:
            self.numbers += range(start, (start + end) // 2)
            raise RuntimeError(FULL)
        self.numbers += range(start, end)
        return list(range(start, end))


def sized(most: int, max_retries: int = 99) -> CardBatch:
    """A size of which nothing is known."""
    forget()
    return CardBatch(
        SizeKey("parts", (), "GPU:0", 1), what="test", most=most, max_retries=max_retries
    )


@given(some.integers(0, 300), some.integers(1, 300), some.integers(1, 300), some.booleans())
def test_each_sample_counts_once(samples: int, most: int, fits: int, is_even: bool) -> None:
    """In order, whatever is refused; results and sizes are those of the parts that ran."""
    counted = Counted(fits)
    cut = even if is_even else min
    parts = list(in_parts(samples, sized(most), counted.run, state=counted, cut=cut))
    assert counted.numbers == list(range(samples))
    assert [number for result, _ in parts for number in result] == list(range(samples))
    assert [len(result) for result, _ in parts] == [size for _, size in parts]
    assert max(counted.tried, default=0) <= most


def test_what_failed_is_put_back_before_the_error() -> None:
    """Where nothing smaller helps, the user's own error, and nothing of the part is left."""
    counted = Counted(fits=2)
    parts = in_parts(40, sized(8, max_retries=1), counted.run, state=counted)
    with pytest.raises(RuntimeError, match="OOM when allocating"):
        next(parts)
    assert (counted.tried, counted.numbers) == ([8, 4], [])


def test_a_size_that_grows_is_taken_at_once() -> None:
    """The rest of the samples is cut again as soon as the GPU takes more."""
    forget()
    growing = CardBatch(
        SizeKey("parts", (), "GPU:0", 1), what="test", most=64, start=8, room_to_double=lambda: True
    )
    counted = Counted(fits=99)
    list(in_parts(100, growing, counted.run))
    assert counted.tried == [8, 16, 32, 44]


@given(some.integers(1, 5000), some.integers(1, 5000))
def test_even_parts_cover_all(samples: int, most: int) -> None:
    """No part is above the most; the last is not a crumb unless rows come in blocks of 32."""
    size = even(samples, most)
    assert 1 <= size <= min(most, max(samples, 1)) or size == samples <= most
    parts = [min(size, samples - start) for start in range(0, samples, size)]
    assert sum(parts) == samples
    if samples > most >= 32:
        assert size % 32 == 0


def test_retries_that_are_none() -> None:
    """Refused with the value and the rule."""
    for retries in (-1, 2.5, True, "many", None):
        with pytest.raises(UsageError, match="not an integer of at least 0") as caught:
            checked_retries(retries)
        assert caught.value.hint == "max_retries=10", retries
