"""Estimates against peaks that were measured once, ``stored_peaks.yaml``: no step is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest
import yaml

import gpuconf
from benchmarks.estimate.cases import Case
from benchmarks.estimate.child import compile_model, make_model
from benchmarks.models.registry import MEASURED
from benchmarks.stages import JIT_VARIABLE

ROWS = yaml.safe_load(Path(__file__).with_name("stored_peaks.yaml").read_text("utf-8"))
if sys.version_info < (3, 11):  # the newest Keras for it has another attention than was measured
    ROWS = [row for row in ROWS if row["case"][0] != "transformer block"]


@pytest.fixture(autouse=True)
def _policy() -> Iterator[None]:
    yield
    keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['case'][0]}-{row['stage']}")
def check_estimates_are_as_right_as_they_were(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """README's accuracy: each estimate's error is within a point of the stored one."""
    case, jit = Case(*row["case"]), row["stage"] == "card-xla"
    if jit:
        monkeypatch.setenv(JIT_VARIABLE, "1")
    model = make_model(case)
    compile_model(model, case)
    shape = MEASURED[case.model].input_shape
    options = {"training": case.is_training, "jit": jit, "allow_growth": False}
    made = gpuconf.estimate(model, case.batch, **options, input_shape=shape)
    error_percent = 100 * (made.peak_bytes / row["peak_bytes"] - 1)
    assert abs(error_percent - row["error_percent"]) < 1, f"{case.name}: {error_percent:.2f} %"
