"""``gpuconf.fit``, ``evaluate`` and ``predict`` in a real TensorFlow; see the files of checks.

They say what may be given, that results are those of Keras with the whole batch, and that a run
survives out of memory at any place of a step.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.inside_tensorflow import PLAIN, Outcomes, holds, names_in, outcomes_fixture

pytestmark = pytest.mark.slow

CHECKS = [
    Path(__file__).with_name(f"batching_{subject}_checks.py")
    for subject in ("equality", "faults", "graph", "use")
]
outcomes = outcomes_fixture(*CHECKS)
outcomes_of_all = outcomes_fixture(CHECKS[0], environ={**PLAIN, "BATCHING_ALL": "1"})


@pytest.mark.parametrize("check", names_in(*CHECKS))
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)


@pytest.mark.nightly
@pytest.mark.parametrize("check", ["check_training_and_evaluation"])
def test_every_kind_of_model(check: str, outcomes_of_all: Outcomes) -> None:
    """The gate trains a part of them, which `batching_equality_checks.py` lists."""
    holds(outcomes_of_all, check)
