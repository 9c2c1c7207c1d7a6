"""Checks inside TensorFlow: of traced steps, of what runs them, and of estimates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.inside_tensorflow import Outcomes, holds, names_in, outcomes_fixture

pytestmark = pytest.mark.slow

SUBJECTS = ("tracing", "runner", "estimate_api", "estimate_models", "xla")
CHECKS = [Path(__file__).with_name(f"{subject}_checks.py") for subject in SUBJECTS]
# Next to whole processes on a GPU; the gate has such of steps that XLA does not compile.
AT_NIGHT = ("check_a_compiled_step_against_the_allocator",)
outcomes = outcomes_fixture(*CHECKS)


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
