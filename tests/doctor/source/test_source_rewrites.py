"""The rewrites of a whole data set: gpuconf's own calls first, and they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.doctor.source import findings_in
from tests.diagnosis.pasted_code import values_of

DATA = """
import keras
import tensorflow as tf
(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
x = tf.compat.v1.placeholder(tf.float32, [None, 784])
model = keras.Sequential([])
"""
# A line of a script, the first of gpuconf's lines that mend it, and Keras's.
CASES = {
    "model.predict_on_batch(x_test)": (
        "gpuconf.predict(model, x_test)",
        "model.predict(x_test, batch_size=32)",
    ),
    "model.test_on_batch(x_test, y=y_test)": (
        "gpuconf.evaluate(model, x_test, y=y_test)",
        "model.evaluate(x_test, y=y_test, batch_size=32)",
    ),
    "model.train_on_batch(x_train, y_train)": (
        "gpuconf.fit(model, x_train, y_train, batch_size=len(x_train))",
        "model.fit(x_train, y_train, batch_size=32)",
    ),
    "model.fit(x_train, y_train, len(x_train), 2)": (
        "gpuconf.fit(model, x_train, y_train, len(x_train), 2)",
        "model.fit(x_train, y_train, 32, 2)",
    ),
    "model.fit(x_train, y_train, epochs=2, batch_size=len(x_train))": (
        "gpuconf.fit(model, x_train, y_train, epochs=2, batch_size=len(x_train))",
        "model.fit(x_train, y_train, epochs=2, batch_size=32)",
    ),
    "model.train_on_batch(x_train, y_train, y_train + 1.0)": (
        "gpuconf.fit(model, x_train, y_train, sample_weight=y_train + 1.0, "
        "batch_size=len(x_train))",
        "model.fit(x_train, y_train, sample_weight=y_train + 1.0, batch_size=32)",
    ),
    "model.evaluate(x_test, y_test, len(x_test), 0)": (
        'gpuconf.evaluate(model, x_test, y_test, "auto", 0)',
        "model.evaluate(x_test, y_test, 32, 0)",
    ),
    "model.evaluate(x_test, y_test, verbose=0, batch_size=len(x_test))": (
        'gpuconf.evaluate(model, x_test, y_test, verbose=0, batch_size="auto")',
        "model.evaluate(x_test, y_test, verbose=0, batch_size=32)",
    ),
    "print(model(x_test))": (
        "gpuconf.predict(model, x_test)",
        "model.predict(x_test, batch_size=32)",
    ),
    "model(x_test, training=False)": (
        "gpuconf.predict(model, x_test)",
        "model.predict(x_test, batch_size=32)",
    ),
    "model(x_test, training=True)": (
        "gpuconf.oom_safe(lambda rows: model(rows, training=True))(x_test)",
        "[model(x_test[i : i + 32], training=True) for i in range(0, len(x_test), 32)]",
    ),
}
FED = {
    "session.run(tensors, {images: x_test})": (
        "gpuconf.session_evaluate(session, tensors, {images: x_test})"
    ),
    "tensors.eval(feed_dict={images: x_test}, session=session)": (
        "gpuconf.session_evaluate(session, tensors, {images: x_test})"
    ),
    "tensors.eval({images: x_test})": (
        "gpuconf.session_evaluate(tf.compat.v1.get_default_session(), tensors, {images: x_test})"
    ),
}
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


@pytest.mark.parametrize("line", CASES)
def test_gpuconf_first_and_keras_in_a_comment(line: str) -> None:
    """So that what is pasted as a whole does it once."""
    ours, keras = CASES[line]
    assert fixes(DATA + line) == [
        f"import gpuconf\n{ours}\n# or without gpuconf:\n# {keras}",
    ]


def test_the_length_of_a_list_of_one_input() -> None:
    """Is that of the input, not of the list."""
    (fix,) = fixes(DATA + "model.train_on_batch([x_train], y_train)")
    assert "gpuconf.fit(model, [x_train], y_train, batch_size=len(x_train))" in fix


@pytest.mark.parametrize("line", FED)
def test_a_graph_is_fed_by_gpuconf(line: str) -> None:
    """With the session that it ran in, its tensors and its feed."""
    assert fixes(DATA + line) == [f"import gpuconf\n{FED[line]}"]


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_on_other_backends_keras_alone(backend: str) -> None:
    """gpuconf's calls refuse them, and its images come without TensorFlow."""
    line = f'import os\nos.environ["KERAS_BACKEND"] = "{backend}"\n'
    for call, (_, keras) in CASES.items():
        assert fixes(line + DATA + call) == [keras]
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
    made = {line: fixes(DATA + line)[0] for line in (*CASES, *FED)}
    made["images"] = STREAM.format("keras")
    found = values_of(list(made.values()), tmp_path)
    gives = {line: found[fix] for line, fix in made.items()}
    assert gives == {
        "model.predict_on_batch(x_test)": "ndarray [40, 2]",
        "model.test_on_batch(x_test, y=y_test)": "list [2]",
        "model.train_on_batch(x_train, y_train)": "History of 1 steps",
        "model.fit(x_train, y_train, len(x_train), 2)": "History of 1 steps",
        "model.fit(x_train, y_train, epochs=2, batch_size=len(x_train))": "History of 1 steps",
        "model.train_on_batch(x_train, y_train, y_train + 1.0)": "History of 1 steps",
        "model.evaluate(x_test, y_test, len(x_test), 0)": "list [2]",
        "model.evaluate(x_test, y_test, verbose=0, batch_size=len(x_test))": "list [2]",
        "print(model(x_test))": "ndarray [40, 2]",
        "model(x_test, training=False)": "ndarray [40, 2]",
        "model(x_test, training=True)": "ndarray [40, 2]",
        **dict.fromkeys(FED, "ndarray [40]"),
        "images": "History of 1 steps",
    }
