"""Checks inside TensorFlow: of steps and estimates, and of the walk that predicts its allocator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.inside_tensorflow import COUNTED, Outcomes, holds, names_in, outcomes_fixture

pytestmark = pytest.mark.slow

SUBJECTS = ("tracing", "estimate_api", "estimate_models", "traced_steps", "stored_peaks", "xla")
CHECKS = [Path(__file__).with_name(f"{subject}_checks.py") for subject in SUBJECTS]
WALK = Path(__file__).with_name("walk_checks.py")
# Next to whole processes on a GPU; the gate has stored peaks of such.
AT_NIGHT = ("check_a_compiled_step_against_the_allocator",)
outcomes, walks = outcomes_fixture(*CHECKS), outcomes_fixture(WALK, environ=COUNTED)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(name, marks=pytest.mark.nightly if name in AT_NIGHT else [])
        for name in names_in(*CHECKS)
    ],
)
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)


@pytest.mark.parametrize("check", names_in(WALK))
def test_against_the_allocator(check: str, walks: Outcomes) -> None:
    """The same of the walk, where TensorFlow's allocator for GPUs serves the CPU."""
    holds(walks, check)
