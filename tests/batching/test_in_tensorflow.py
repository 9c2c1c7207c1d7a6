"""``gpuconf.fit``, ``evaluate`` and ``predict`` in a real TensorFlow; see the files of checks.

They say what may be given, that results are those of Keras with the whole batch, and that a run
survives out of memory at any place of a step.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.inside_tensorflow import Outcomes, holds, names_in, outcomes_fixture

pytestmark = pytest.mark.slow

CHECKS = [
    Path(__file__).with_name(f"batching_{subject}_checks.py")
    for subject in ("faults", "equality", "use")
]
outcomes = outcomes_fixture(*CHECKS)


@pytest.mark.parametrize("check", names_in(*CHECKS))
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)
