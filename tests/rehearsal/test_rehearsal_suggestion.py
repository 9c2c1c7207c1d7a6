"""The suggested batch: never above the limit's line, never one that is known to fail."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuconf.rehearsal.suggestion import MARGIN, Measurement, sensible, suggest
from gpuconf.units import MIB

_SIZES = st.integers(min_value=1, max_value=4096)


@given(
    small=_SIZES,
    more=_SIZES,
    fixed=st.integers(0, 4096),
    per_example=st.integers(1, 64),
    limit=st.integers(1, 65536),
)
def test_on_a_true_line_it_fits(
    small: int, more: int, fixed: int, per_example: int, limit: int
) -> None:
    """Where the peak really is a line, what is suggested fits, and twice the margin more not."""

    def peak(batch: int) -> int:
        return (fixed + per_example * batch) * MIB

    points = (Measurement(small, peak(small)), Measurement(small + more, peak(small + more)))
    found = suggest(points, limit * MIB)
    room = limit * MIB * (1 - MARGIN)
    if found.batch is None:
        assert found.why_not
        return
    assert found.batch >= 1
    assert peak(found.batch) <= room
    assert found.batch <= 16 * (small + more)
    assert found.expected_bytes == pytest.approx(peak(found.batch), rel=1e-6)


@given(
    small=_SIZES,
    factor=st.integers(2, 4),
    failed_after=st.integers(1, 100),
    peaks=st.tuples(st.integers(1, 10**10), st.integers(1, 10**10)),
    examples=st.none() | _SIZES,
)
def test_what_failed_or_is_not_there_is_not_suggested(
    small: int, factor: int, failed_after: int, peaks: tuple[int, int], examples: int | None
) -> None:
    """The suggestion stays below the batch that failed and within the examples there are."""
    large = small * factor
    assume(examples is None or examples >= large)
    points = (Measurement(small, min(peaks)), Measurement(large, max(peaks)))
    found = suggest(points, 2 * 10**10, failed=large + failed_after, examples=examples)
    if found.batch is not None:
        assert found.batch < large + failed_after
        assert examples is None or found.batch <= examples


def test_a_measured_batch_is_not_rounded_away() -> None:
    """Batch 30 was measured and fits, 31 fails: 30 is the suggestion, not the rounder 28."""
    points = (Measurement(15, 15 * MIB), Measurement(30, 30 * MIB))
    assert suggest(points, 100 * MIB, failed=31).batch == 30


def test_a_flat_peak_suggests_nothing() -> None:
    """Where the optimizer's update rules, two equal peaks say nothing of larger batches."""
    found = suggest((Measurement(1, 2214 * MIB), Measurement(8, 2219 * MIB)), 4096 * MIB)
    assert found.batch is None
    assert found.why_not is not None
    assert "hardly changes" in found.why_not


def test_one_point_is_no_line() -> None:
    """The same batch twice is one point."""
    point = Measurement(8, 100 * MIB)
    assert suggest((point, point), 4096 * MIB).batch is None


@given(st.integers(1, 100_000))
def test_sensible_rounds_down_by_a_quarter_at_most(most: int) -> None:
    """A rounder number, never larger, never less than three quarters."""
    batch = sensible(most)
    assert 0 < batch <= most
    assert batch > most * 0.75 or batch == most
