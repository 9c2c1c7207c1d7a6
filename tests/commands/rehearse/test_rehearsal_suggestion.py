"""The suggested batch: never above the limit's line, never one that is known to fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.rehearse.rehearse import Rehearsal, rehearse
from gpuconf.commands.rehearse.report import advice_section
from gpuconf.commands.rehearse.runs import Orders, RunResult
from gpuconf.commands.rehearse.suggestion import MARGIN, Measurement, sensible, suggest
from gpuconf.commands.rehearse.trace import Tape, TracedAllocation, Usage
from gpuconf.simcard import CardSpec

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


def test_a_small_point_that_is_too_high_is_not_believed() -> None:
    """Measured with TensorFlow 2.15: 32 → 73.5, 64 → 122 MiB, and 416 needed 776 of 716 MiB."""
    points = (Measurement(32, round(73.5 * MIB)), Measurement(64, 122 * MIB))
    assert suggest(points, 716 * MIB).batch == 416
    found = suggest(points, 716 * MIB, kept_bytes=3 * MIB)
    assert found.batch is not None
    assert 256 <= found.batch < 384
    assert found.expected_bytes is not None
    assert found.expected_bytes <= 716 * MIB * (1 - MARGIN)


def test_the_data_bounds_the_batch() -> None:
    """A batch cannot be larger than all the examples there are, and that is said."""
    points = (Measurement(16, 16 * MIB), Measurement(32, 32 * MIB))
    found = suggest(points, 4096 * MIB, examples=50)
    assert (found.batch, found.is_all_data) == (50, True)
    assert not suggest(points, 40 * MIB, examples=50).is_all_data


def _rehearsed(
    peak_mib: Callable[[int], float],
    *,
    fits_up_to: int = 10_000,
    used: int = 64,
    limit_mib: int = 716,
    weights: int = 0,
) -> tuple[Rehearsal, list[int]]:
    """A training run of such peaks, in which larger batches fail; the batches that were run."""
    ran: list[int] = []
    oom = "OOM when allocating tensor with shape[9] and type float by allocator GPU_0_bfc"

    def once(_: Sequence[str], orders: Orders, **__: object) -> RunResult:
        batch = orders.batch or used
        ran.append(batch)
        report: dict[str, Any] = {
            "tensorflow": "2.21.0",
            "steps": 3,
            "batch": {"kind": "arrays", "own": used, "used": batch, "examples": 5000},
        }
        if weights:
            report["model"] = {"weights": [weights], "slots": []}
        if batch > fits_up_to:
            report |= {"steps": 0, "uncaught": {"type": "ResourceExhaustedError", "message": oom}}
        live = (TracedAllocation(0, weights, weights, "x/Initializer/x", None, False),)
        usage = Usage(0, limit_mib * MIB, round(peak_mib(batch) * MIB), 0, (), live[:weights])
        return RunResult(int(batch > fits_up_to), (report,), report, Tape((usage,)), (), "", 1.0)

    spec = CardSpec(total_bytes=1024 * MIB)
    return rehearse(
        ["t"], Orders(), spec=spec, card=None, environ={}, run=once, other_batches="always"
    ), ran


def test_what_is_suggested_was_run() -> None:
    """The line's batch is tried; it fits, and its peak is told."""
    done, ran = _rehearsed(lambda batch: batch)
    assert ran == [64, 32, 672]
    assert done.suggestion is not None
    assert (done.suggestion.batch, done.suggestion.measured_bytes) == (672, 672 * MIB)
    assert "up to about 672, which was measured: 672 MiB" in str(advice_section(done))


@pytest.mark.parametrize(
    ("fits_up_to", "ran", "batch"),
    [(500, [672, 352, 640], 352), (100, [672, 352, 192], 64), (64, [672, 352, 192], 64)],
)
def test_a_suggestion_that_does_not_fit_is_halved(
    fits_up_to: int, ran: list[int], batch: int
) -> None:
    """Half-way to what fits, three runs at most; at last what was measured before."""
    done, all_ran = _rehearsed(lambda batch: batch, fits_up_to=fits_up_to)
    assert all_ran == [64, 32, *ran]
    assert done.suggestion is not None
    assert (done.suggestion.batch, done.suggestion.measured_bytes) == (batch, batch * MIB)


def test_a_line_that_was_too_steep_is_drawn_again() -> None:
    """Measured with TensorFlow 2.21: 16 → 126, 32 → 142 MiB, of which 109 are not weights; so 320
    was suggested, took 578 of 1610 MiB, and 900 would not have fitted."""
    done, ran = _rehearsed(
        lambda batch: 109 + 1.04 * batch if batch < 64 else 94 + 1.51 * batch,
        used=32,
        limit_mib=1610,
        weights=9 * MIB,
    )
    assert ran[:2] == [32, 16]
    assert ran[2] < 400
    assert ran[3] > 800
    assert done.suggestion is not None
    assert done.suggestion.batch == ran[3]
    assert "up to about" in str(advice_section(done))
