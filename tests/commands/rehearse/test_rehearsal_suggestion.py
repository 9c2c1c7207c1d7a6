"""The suggested batch: one that ran below the limit, never one that is known to fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.rehearse.measuring import sensible
from gpuconf.commands.rehearse.rehearse import Rehearsal, rehearse
from gpuconf.commands.rehearse.report import advice_section
from gpuconf.commands.rehearse.runs import Orders, RunResult
from gpuconf.commands.rehearse.suggestion import MARGIN
from gpuconf.commands.rehearse.trace import Tape, TracedAllocation, Usage
from gpuconf.simcard import CardSpec


def _rehearsed(
    peak_mib: Callable[[int], float],
    *,
    fits_up_to: int = 10_000,
    used: int = 64,
    limit_mib: int = 716,
    weights: int = 0,
    examples: int = 5000,
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
            "batch": {"kind": "arrays", "own": used, "used": batch, "examples": examples},
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


@given(
    used=st.integers(1, 512),
    fixed=st.integers(0, 512),
    per_example=st.integers(1, 64),
    limit=st.integers(64, 65536),
    examples=st.integers(512, 5000),
)
def test_on_a_true_line_it_fits(
    used: int, fixed: int, per_example: int, limit: int, examples: int
) -> None:
    """What is suggested ran, fits with the margin, and is most of what would."""

    def peak(batch: int) -> int:
        return fixed + per_example * batch

    best = min(examples, int((limit * (1 - MARGIN) - fixed) / per_example))
    done, ran = _rehearsed(
        peak,
        fits_up_to=(limit - fixed) // per_example,
        used=used,
        limit_mib=limit,
        examples=examples,
    )
    found = done.suggestion
    assert found is not None
    assert len(ran) <= 7
    if best < 1:
        assert found.batch is None
        assert found.why_not
        return
    if found.batch is None:
        assert found.why_not is not None
        assert "fewer were not tried" in found.why_not
        assert best < used / 16
        return
    assert found.batch in ran
    assert found.batch <= examples
    assert found.measured_bytes == peak(found.batch) * MIB
    assert found.batch <= best
    assert found.batch >= min(best * 2 // 3, used * 15)


def test_a_measured_batch_is_not_rounded_away() -> None:
    """Batch 30 was run and fits, 31 fails: 30 is the suggestion, not the rounder 28."""
    done, ran = _rehearsed(lambda batch: batch, fits_up_to=30, used=30)
    assert done.suggestion is not None
    assert (done.suggestion.batch, ran[0]) == (30, 30)


def test_a_flat_peak_is_no_line() -> None:
    """Where the optimizer's update rules, larger batches are run, 16 times as large at most."""
    done, ran = _rehearsed(lambda batch: max(400, batch), used=4, weights=390 * MIB)
    assert ran[:2] == [4, 64]
    assert done.suggestion is not None
    assert done.suggestion.batch is not None
    assert 600 <= done.suggestion.batch <= 680


def test_not_even_one_example_fits() -> None:
    """That is said where it was tried; where the search ended before, it is not."""
    done, ran = _rehearsed(lambda batch: batch, fits_up_to=0, used=8)
    assert ran == [8, 4, 2, 1]
    assert "not even one example per step fits" in str(advice_section(done))
    done, ran = _rehearsed(lambda batch: batch, fits_up_to=0, used=4096)
    assert "64 examples per step do not fit, and fewer were not tried" in str(advice_section(done))


@given(st.integers(1, 100_000))
def test_sensible_rounds_down_by_a_quarter_at_most(most: int) -> None:
    """A rounder number, never larger, never less than three quarters."""
    batch = sensible(most)
    assert 0 < batch <= most
    assert batch > most * 0.75 or batch == most


def test_the_data_bounds_the_batch() -> None:
    """A batch cannot be larger than all the examples there are, and that is said."""
    done, ran = _rehearsed(lambda batch: batch, used=32, limit_mib=4096, examples=50)
    assert ran == [32, 50]
    assert done.suggestion is not None
    assert (done.suggestion.batch, done.suggestion.is_all_data) == (50, True)
    assert "the data has no more examples than that" in str(advice_section(done))


def test_what_is_suggested_was_run() -> None:
    """The line's batch is tried; it fits, and its peak is told."""
    done, ran = _rehearsed(lambda batch: batch)
    assert ran == [64, 672]
    assert done.suggestion is not None
    assert (done.suggestion.batch, done.suggestion.measured_bytes) == (672, 672 * MIB)
    assert "up to about 672, which was measured: 672 MiB" in str(advice_section(done))


@pytest.mark.parametrize(("fits_up_to", "batch"), [(500, 480), (100, 96), (64, 64)])
def test_a_batch_that_does_not_fit_is_followed_by_smaller_ones(fits_up_to: int, batch: int) -> None:
    """Half-way to what fits, six runs at most; the suggestion ran."""
    done, ran = _rehearsed(lambda batch: batch, fits_up_to=fits_up_to)
    assert ran[:2] == [64, 672]
    assert len(ran) <= 7
    assert done.suggestion is not None
    assert (done.suggestion.batch, done.suggestion.measured_bytes) == (batch, batch * MIB)
    assert " does not fit" in str(advice_section(done))


def test_a_line_that_was_too_steep_is_drawn_again() -> None:
    """Measured with TensorFlow 2.21: 32 took 142 MiB of which 9 were weights, 320 took 578 of 1610
    MiB, and 900 would have fitted."""
    done, ran = _rehearsed(
        lambda batch: 109 + 1.04 * batch if batch < 64 else 94 + 1.51 * batch,
        used=32,
        limit_mib=1610,
        weights=9 * MIB,
    )
    assert ran[0] == 32
    assert ran[1] < 400
    assert ran[2] > 800
    assert done.suggestion is not None
    assert done.suggestion.batch == ran[2]
    assert "up to about" in str(advice_section(done))
