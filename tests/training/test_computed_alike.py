"""The simulated GPU computes what the CPU computes: operations, gradients, whole trainings.

This folder mirrors no module: it holds what `make models` shows (benchmarks/training/) against
the bridge, with a smaller choice of models and a larger one of operations.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import stages
from benchmarks.stages import Result, Stage
from benchmarks.training.agreement import agreement
from benchmarks.training.models_page import Row
from benchmarks.training.on_device import CARD, SIDE_VARIABLE
from benchmarks.training.trainings import TRAININGS
from tests.programs import warm
from tests.training.all_operations import OPERATIONS
from tests.training.refused_operations import REFUSED
from tests.training.training_choice import IN_THE_GATE, TRAINED, BothSides

_RUN = Path(__file__).with_name("run_operations.py")


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_and_its_gradient(operations: BothSides, name: str) -> None:
    """Eagerly and in a graph, to the last bit or the tolerance that the table gives reasons for;
    results that belong on the GPU were there (see run_operations)."""
    on_cpu, on_card = operations.on_cpu[name], operations.on_card[name]
    assert (on_cpu.error, on_card.error) == (None, None)
    found = agreement(on_cpu.arrays, on_card.arrays)
    assert found.within(OPERATIONS[name].tolerance), found


def test_every_tolerance_has_a_reason() -> None:
    """A table in which anything goes proves nothing: most cases request equal bits."""
    lenient = [case for case in OPERATIONS.values() if case.tolerance]
    assert all(case.reason for case in lenient)
    assert len(lenient) < len(OPERATIONS) / 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == IN_THE_GATE else pytest.mark.nightly) for n in TRAINED],
)
def test_a_training(trainings: BothSides, name: str) -> None:
    """The same losses, weights and predictions, as docs/trained-models.md counts them; variables,
    outputs and most nodes on the GPU, and its memory used (see train_models)."""
    row = Row(TRAININGS[name], trainings.on_cpu[name], trainings.on_card[name], None)
    assert row.errors == []
    assert row.agrees, row.agreement
    losses = row.on_card.arrays["losses"]
    assert np.isfinite(losses).all()
    assert len(set(losses.tolist())) == len(losses), "it did not train"


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_bridged_is_refused_by_name(refusals: dict[str, Result], name: str) -> None:
    """Never a wrong number, never a silent end: an error that names the operation or
    the reason, and the process lives on."""
    error = refusals[name].error
    assert error is not None, "it came back, with whatever numbers"
    assert any(word in error for word in REFUSED[name].words), error
    assert "the process ended" not in error


@pytest.mark.slow
def test_a_card_that_is_not_there_is_no_card(tmp_path: Path) -> None:
    """A table of CPU runs cannot pass for the GPU's: without a GPU that side does not run."""
    cpu = stages.comparable_cpu({**os.environ, warm.VARIABLE: "1"})
    no_card = Stage(CARD, {**cpu.environ, SIDE_VARIABLE: CARD})
    name = "einsum"
    result = stages.run_cases(no_card, _RUN, [name], tmp_path)[name]
    assert result.error is not None
    assert "NotOnTheCardError" in result.error


_ONE = {"a": np.array([1.0, 2.0], np.float32), "b": np.array([1, 2])}


@pytest.mark.parametrize(
    "other",
    [
        {**_ONE, "a": np.array([1.0, np.nextafter(np.float32(2), np.float32(3))], np.float32)},
        {**_ONE, "a": np.array([1.0, np.nan], np.float32)},
        {**_ONE, "a": np.array([1.0, 2.0], np.float64)},
        {**_ONE, "a": np.array([[1.0, 2.0]], np.float32)},
        {**_ONE, "b": np.array([1, 3])},
        {"a": _ONE["a"]},
        {},
    ],
    ids=["last bit", "NaN", "type", "shape", "integer", "missing", "nothing"],
)
def test_a_difference_is_seen(other: dict[str, Any]) -> None:
    """The comparison can fail, both ways round."""
    assert agreement(_ONE, _ONE).bit_equal
    assert not agreement(_ONE, other).bit_equal
    assert not agreement(other, _ONE).bit_equal
    assert not agreement({}, {}).bit_equal


def test_a_tolerance_is_relative_to_the_largest_value() -> None:
    """0.1 in 100 is a thousandth; and one NaN is no matter of tolerance."""
    one, other = {"a": np.array([100.0, 0.0])}, {"a": np.array([100.0, 0.1])}
    assert agreement(one, other).within(1.01e-3)
    assert not agreement(one, other).within(0.99e-3)
    assert not agreement(one, {"a": np.array([100.0, np.nan])}).within(1e9)
