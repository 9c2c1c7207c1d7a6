"""Estimates of steps that run op by op, next to the peak of the whole process that trains."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks.estimate.cases import Case
from benchmarks.estimate.estimates import estimate_group
from benchmarks.estimate.measurements import measure_case
from benchmarks.stages import Stage, limited, measured_card
from gpuconf.basics.units import MIB
from tests.programs import warm

pytestmark = pytest.mark.slow(seconds=40)

# How far the estimate may be off.  Models whose tensors wait for copies, as in attention, are left
# out: their own peak varies from run to run.
CASES = (
    # Separable convolutions, pooling, batch normalization.
    (Case("separable sound", "adam", 16), 0.01),
    # cuDNN's recurrent layers.
    (Case("stacked GRU", "rmsprop", 64), 0.02),
    # In training, the process would skip the update, since no loss is finite: see `runner_checks`.
    (Case("group norm ResNet", "adam", 8, "mixed_float16", is_training=False), 0.02),
)
LIMIT_MIB = 512
ENVIRON = {**os.environ, warm.VARIABLE: warm.CHILDREN}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A simulated GPU where one operation runs at a time."""
    with measured_card(ENVIRON) as made:
        yield made


@pytest.mark.parametrize(("case", "part"), CASES, ids=[case.model for case, _ in CASES])
def test_the_estimate_is_the_peak_of_the_program(case: Case, part: float, stage: Stage) -> None:
    """Next to TensorFlow's own count in a process that trains for two steps."""
    measured = measure_case(case, stage)
    assert measured.error is None
    estimated = estimate_group([case], ENVIRON)[case.name]
    assert estimated.error is None
    assert estimated.peak_bytes == pytest.approx(measured.peak_bytes, rel=part)


def test_the_largest_batch_runs_and_a_tenth_more_does_not(stage: Stage) -> None:
    """Whole processes whose TensorFlow may use this much, fragmented or not."""
    case = Case("separable sound", "adam", 16)
    estimated = estimate_group([case], ENVIRON, limit_bytes=LIMIT_MIB * MIB)[case.name]
    largest = estimated.largest_batch or 0
    assert largest > 32
    small = limited(stage, LIMIT_MIB)
    assert measure_case(case._replace(batch=largest), small).error is None
    refused = measure_case(case._replace(batch=round(1.1 * largest)), small)
    assert "OOM" in (refused.error or "")
