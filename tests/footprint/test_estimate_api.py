"""``gpuconf.estimate``: what it takes, refuses and leaves behind; see the checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inside_tensorflow import PLAIN, Outcomes, holds, names_in, outcomes_fixture
from tests.processes import run_python

pytestmark = pytest.mark.slow

CHECKS = Path(__file__).with_name("estimate_api_checks.py")
outcomes = outcomes_fixture(CHECKS)

_ON_JAX = """
import keras
from gpuconf import BackendError, estimate

model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
try:
    estimate(model)
except BackendError as error:
    assert "jax" in error.message
    assert "KERAS_BACKEND=tensorflow" in error.hint
    print("refused")
"""


@pytest.mark.parametrize("check", names_in(CHECKS))
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)


def test_keras_on_another_backend_is_refused(tmp_path: Path) -> None:
    """On JAX: a BackendError that says how to choose TensorFlow."""
    environ = {**PLAIN, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    told = run_python(_ON_JAX, tmp_path, environ=environ, timeout_s=300)
    assert told.strip() == "refused"
