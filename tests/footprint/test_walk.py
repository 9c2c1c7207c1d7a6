"""A traced graph becomes pieces of memory: against TensorFlow's own allocator, see the checks."""

from __future__ import annotations

import pytest
from inside_tensorflow import COUNTED, Outcomes, holds, names_in, outcomes_fixture

pytestmark = pytest.mark.slow

_FILE = "walk_checks.py"
outcomes = outcomes_fixture(_FILE, COUNTED)


@pytest.mark.parametrize("check", names_in(_FILE))
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)
