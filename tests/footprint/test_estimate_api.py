"""``gpuconf.estimate``: what it takes, refuses and leaves behind; see the checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.inside_tensorflow import Outcomes, holds, names_in, outcomes_fixture

pytestmark = pytest.mark.slow

CHECKS = Path(__file__).with_name("estimate_api_checks.py")
outcomes = outcomes_fixture(CHECKS)


@pytest.mark.parametrize("check", names_in(CHECKS))
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)
