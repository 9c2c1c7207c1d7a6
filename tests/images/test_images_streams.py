"""``gpuconf.images.stream`` in a real TensorFlow; see the checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs import warm
from tests.programs.inside_tensorflow import PLAIN, Outcomes, holds, names_in, outcomes_fixture
from tests.programs.processes import run_python

pytestmark = pytest.mark.slow

CHECKS = Path(__file__).with_name("images_stream_checks.py")
outcomes = outcomes_fixture(CHECKS)

_NO_PILLOW = """
import sys
from pathlib import Path

sys.modules["PIL"] = None  # as where it is not installed
import tensorflow as tf
from gpuconf.images import stream

jpeg = tf.io.encode_jpeg(tf.zeros([40, 40, 3], tf.uint8)).numpy()
Path("a.jpg").write_bytes(jpeg)
assert len(list(stream(["a.jpg"], size=(16, 16)))) == 1

gif = b"GIF89a" + bytes(50)
Path("odd.gif").write_bytes(gif)
for policy in ("raise", "skip"):
    try:
        list(stream(["odd.gif"], size=(16, 16), on_error=policy))
    except tf.errors.OpError as error:
        assert "odd.gif" in error.message and "gpuconf[images]" in error.message, error.message
        print("refused")
"""

_ON_JAX = """
from pathlib import Path
import keras
from tests.images.image_files import plains
from gpuconf.images import stream

assert keras.backend.backend() == "jax"
augment = keras.Sequential([keras.layers.RandomFlip("horizontal"), keras.layers.RandomZoom(0.1)])
options = {"size": (8, 8), "batch_size": 5, "scale": "0-1", "augment": augment}
dataset = stream(plains(Path("images"), 12), [0.0] * 12, **options)
layers = [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(1)]
model = keras.Sequential(layers)
model.compile("sgd", "mse")
print(len(model.fit(dataset, epochs=2, shuffle=False, verbose=0).history["loss"]))
"""


@pytest.mark.parametrize("check", names_in(CHECKS))
def test_in_tensorflow(check: str, outcomes: Outcomes) -> None:
    """The check of this name holds; its docstring says what it is."""
    holds(outcomes, check)


def test_without_pillow(tmp_path: Path) -> None:
    """A plain JPEG needs none; what needs it says so with the file's name, whatever the policy."""
    environ = {**PLAIN, warm.VARIABLE: "1"}
    output = run_python(_NO_PILLOW, tmp_path, environ=environ, timeout_s=300)
    assert output.split() == ["refused", "refused"]


def test_keras_on_jax(tmp_path: Path) -> None:
    """It takes a stream, and its layers, also those of a Sequential, augment inside."""
    environ = {**PLAIN, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    assert run_python(_ON_JAX, tmp_path, environ=environ, timeout_s=300) == "2\n"
