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
from benchmarks.estimate.estimate_cases import MODELS, Case
from benchmarks.estimate.stage_child import compile_model, make_model
from benchmarks.estimate.stages import JIT_VARIABLE

ROOT = Path(__file__).parents[2]
ROWS = yaml.safe_load(Path(__file__).with_name("stored_peaks.yaml").read_text("utf-8"))


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
    shape = MODELS[case.model].input_shape
    options = {"training": case.is_training, "jit": jit, "allow_growth": False}
    made = gpuconf.estimate(model, case.batch, **options, input_shape=shape)
    error_percent = 100 * (made.peak_bytes / row["peak_bytes"] - 1)
    assert abs(error_percent - row["error_percent"]) < 1, f"{case.name}: {error_percent:.2f} %"


def check_the_worked_example_is_what_its_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line of the transcript in docs/estimate.md, and so the heading of its plot."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    model = __import__("flow_network").make()
    made = gpuconf.estimate(model, 2, limit="5.5GiB", workspace_limit="256MiB", jit=False)
    page = (ROOT / "docs" / "estimate.md").read_text("utf-8")
    _, _, transcript = page.partition("flow_network:make --batch-size 2 --limit 5.5GiB")
    assert transcript.splitlines()[1] == str(made).splitlines()[0]
    sys.modules.pop("flow_network")
