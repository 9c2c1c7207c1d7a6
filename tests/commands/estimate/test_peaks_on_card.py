"""Estimates of steps that run op by op, next to the peak of the program that trains."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks.estimate.cases import Case
from benchmarks.estimate.estimates import estimate_group
from benchmarks.estimate.measurements import measure_case
from benchmarks.stages import Stage, measured_card

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A simulated GPU where one operation runs at a time."""
    with measured_card(os.environ) as made:
        yield made


@pytest.mark.parametrize(
    "case",
    [
        Case("digits convnet", "sgd", 128),
        Case("transformer block", "sgd", 1024),
        Case("LSTM classifier", "sgd", 64),
    ],
    ids=lambda case: case.model,
)
def test_the_estimate_is_the_peak_of_the_program(case: Case, stage: Stage) -> None:
    """Within 5 % of TensorFlow's own count in a process that trains for two steps.

    `stored_peaks.yaml` has such peaks of more models; this shows that they are still measured.
    """
    measured = measure_case(case, stage)
    assert measured.error is None
    estimated = estimate_group([case], os.environ, jit=False)[case.name]
    assert estimated.error is None
    assert estimated.one_region_bytes == pytest.approx(measured.peak_bytes, rel=0.05)
