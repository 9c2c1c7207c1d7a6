"""What a traced step is made of, and estimates for models of all kinds; see the files of checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.inside_tensorflow import Outcomes, holds, names_in, outcomes_fixture

pytestmark = pytest.mark.slow

CHECKS = [
    Path(__file__).with_name(f"{subject}_checks.py")
    for subject in ("tracing", "estimate_models", "traced_steps", "stored_peaks")
]
outcomes = outcomes_fixture(*CHECKS)


@pytest.mark.parametrize("check", names_in(*CHECKS))
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)
