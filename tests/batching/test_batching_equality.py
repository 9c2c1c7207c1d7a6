"""``fit``, ``evaluate`` and ``predict`` give what Keras's own give; see the checks."""

from __future__ import annotations

import pytest
from batching_inside import Outcomes, holds, names_in, outcomes_fixture

pytestmark = pytest.mark.slow

_FILE = "batching_equality_checks.py"
outcomes = outcomes_fixture(_FILE)


@pytest.mark.parametrize("check", names_in(_FILE))
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)
