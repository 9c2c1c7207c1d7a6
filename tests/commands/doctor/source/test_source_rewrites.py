"""The rewrites of a whole data set: gpuconf's own calls first, and they run."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuconf.commands.doctor.source import findings_in
from tests.commands.explain.pasted_code import values_of

DATA = """
import keras
import tensorflow as tf
(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
x = tf.compat.v1.placeholder(tf.float32, [None, 784])
model = keras.Sequential([])
"""
ROWS = yaml.safe_load(Path(__file__).with_name("rewrites.yaml").read_text(encoding="utf-8"))
IMAGES = """
import cv2, glob
import numpy as np
{}
IMAGE_SIZE = 96
images = [cv2.resize(cv2.imread(path), (IMAGE_SIZE, IMAGE_SIZE)) for path in glob.glob("a/*")]
x = np.array(images)
"""
STREAM = """\
import gpuconf.images

data = gpuconf.images.stream(
    paths, labels, size=(96, 96), batch_size=32, host_limit="2GiB")
model.fit(data)
# or without gpuconf, from a folder with a folder for each class:
# data = {}.utils.image_dataset_from_directory("images", image_size=(96, 96), batch_size=32)"""


def fixes(script: str, check: str = "source.whole_set") -> list[str]:
    """The rewrites that one check proposes for a script."""
    return [each.fix or "" for each in findings_in(script, "train.py") if each.id == check]


def rewrite(row: dict[str, str]) -> str:
    """What is proposed for a row; Keras's own call, where there is one, stands in a comment."""
    ours = f"import gpuconf\n{row['gpuconf']}"
    return f"{ours}\n# or without gpuconf:\n# {row['keras']}" if "keras" in row else ours


def test_gpuconf_first_and_keras_in_a_comment() -> None:
    """So that what is pasted as a whole does it once; a graph is fed by gpuconf alone."""
    proposed = {row["line"]: fixes(DATA + row["line"]) for row in ROWS}
    assert proposed == {row["line"]: [rewrite(row)] for row in ROWS}


def test_the_length_of_a_list_of_one_input() -> None:
    """Is that of the input, not of the list."""
    (fix,) = fixes(DATA + "model.train_on_batch([x_train], y_train)")
    assert "gpuconf.fit(model, [x_train], y_train, batch_size=len(x_train))" in fix


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_on_other_backends_keras_alone(backend: str) -> None:
    """gpuconf's calls refuse them, and its images come without TensorFlow."""
    line = f'import os\nos.environ["KERAS_BACKEND"] = "{backend}"\n'
    for row in ROWS:
        if "keras" in row:
            assert fixes(line + DATA + row["line"]) == [row["keras"]]
    (fix,) = fixes(line + IMAGES.format("import keras"), "source.images_in_list")
    assert "gpuconf.images.sequence(" in fix
    assert "model.fit(data, shuffle=False)" in fix


@pytest.mark.parametrize(
    ("line", "keras"),
    [("import keras", "keras"), ("import tensorflow", "tensorflow.keras"),
     ("from tensorflow import keras as K", "K")],
)  # fmt: skip
def test_images_are_streamed_in_the_size_of_the_script(line: str, keras: str) -> None:
    """By gpuconf, with no list of them; and by Keras under the name that the script knows."""
    assert fixes(IMAGES.format(line), "source.images_in_list") == [STREAM.format(keras)]


@pytest.mark.parametrize("line", ["x = x / 255.0", "x /= 255"])
def test_a_script_that_scales_gets_a_stream_that_scales(line: str) -> None:
    """Otherwise the same network would learn from numbers of another size."""
    (fix,) = fixes(f"{IMAGES.format('import keras')}{line}\n", "source.images_in_list")
    assert 'batch_size=32, scale="0-1", host_limit="2GiB")' in fix


def test_the_size_of_images_is_taken_only_where_it_is_clear() -> None:
    """Some libraries put the height first and others the width."""
    script = IMAGES.format("import keras").replace("(IMAGE_SIZE, IMAGE_SIZE)", "(64, 48)")
    (fix,) = fixes(script, "source.images_in_list")
    assert "size=(224, 224)" in fix


def test_a_function_of_the_backend_is_called_slice_by_slice() -> None:
    """Also where its inputs are given by name."""
    for call in ("f([x_test])", "f(x_test)", "f(inputs=x_test)"):
        (fix,) = fixes(f"{DATA}f = keras.backend.function(model.inputs, model.outputs)\n{call}")
        assert fix.startswith("outputs = [f([x_test[i : i + 32]])[0] for i in range(0, len(x_test)")


@pytest.mark.slow
def test_the_rewrites_run(tmp_path: Path) -> None:
    """In a real TensorFlow, each gives what its last line should."""
    expected = {rewrite(row): row["gives"] for row in ROWS}
    expected[STREAM.format("keras")] = "History of 1 steps"
    assert values_of(list(expected), tmp_path) == expected
