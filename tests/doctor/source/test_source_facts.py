"""What the source lint says of TensorFlow, Keras and JAX, asked of them, each in a process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def run(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script's outcome in a process of its own, with no variables of ours but these."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("TF_", "KERAS"))}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**kept, "JAX_PLATFORMS": "cpu", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )


def last_line(script: str, **variables: str) -> str:
    """The last line that the script prints."""
    return run(script, **variables).stdout.splitlines()[-1]


TENSORFLOW = """
import tensorflow as tf, os
os.environ.update(TF_ENABLE_ONEDNN_OPTS="0", TF_CPP_MIN_LOG_LEVEL="3")
from tensorflow.python.framework import test_util
tf.constant(1.0)
print(test_util.IsMklEnabled(), hasattr(tf, "Session"), hasattr(tf, "ConfigProto"),
      hasattr(tf.keras.backend, "set_session"), hasattr(tf.compat.v1, "Session"))
"""


def test_tensorflow_reads_at_import() -> None:
    """TF_ENABLE_ONEDNN_OPTS and TF_CPP_MIN_LOG_LEVEL set a line later do nothing.

    (Set to 1 before, as what holds without it depends on the processor.)  And version-1 sessions
    are only in tf.compat.v1, and with Keras nowhere.
    """
    late = run(TENSORFLOW, TF_ENABLE_ONEDNN_OPTS="1")
    assert late.stdout.split() == ["True", "False", "False", "False", "True"]
    assert "cpu_feature_guard" in late.stderr
    early = run(TENSORFLOW, TF_ENABLE_ONEDNN_OPTS="0", TF_CPP_MIN_LOG_LEVEL="3")
    assert early.stdout.split()[0] == "False"
    assert "cpu_feature_guard" not in early.stderr


KERAS = """
import tensorflow as tf, os
from tensorflow.keras import layers
os.environ.update(KERAS_BACKEND="jax", TF_USE_LEGACY_KERAS="1")
import keras
print(keras.backend.backend(), tf.keras.layers.Dense.__module__.partition(".")[0])
"""


def test_keras_reads_at_import() -> None:
    """KERAS_BACKEND and TF_USE_LEGACY_KERAS are read when Keras is imported."""
    assert last_line(KERAS) == "tensorflow keras"
    assert last_line(KERAS, KERAS_BACKEND="jax").startswith("jax")


def test_jax_reads_its_platforms_at_import() -> None:
    """JAX_PLATFORMS set after the import does nothing."""
    script = (
        "import jax, os\nos.environ['JAX_PLATFORMS'] = 'no such'\nprint(jax.devices()[0].platform)"
    )
    assert last_line(script) == "cpu"
