"""What the doctor names in place of a call that takes a whole data set at once."""

from __future__ import annotations

import re

import pytest

import gpuconf
import gpuconf.images
from gpuconf.commands.doctor.source import findings_in

DATA = """
import keras
import tensorflow as tf
(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
model = keras.Sequential([])
f = keras.backend.function(model.inputs, model.outputs)
"""
IMAGES = """
import cv2, keras
import numpy as np
x = np.array([cv2.imread(path) for path in paths])
"""


def fix_of(script: str, check: str = "source.whole_set") -> str:
    """What one check proposes for a script with one such finding."""
    (fix,) = [each.fix for each in findings_in(script, "train.py") if each.id == check]
    assert fix is not None
    return fix


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("model.predict_on_batch(x_test)", "gpuconf.predict(...)"),
        ("model.test_on_batch(x_test, y=y_test)", "gpuconf.evaluate(...)"),
        ("model.train_on_batch([x_train], y_train)", "gpuconf.fit(...)"),
        ("model.fit(x_train, y_train, len(x_train), 2)", "gpuconf.fit(...)"),
        ("model.evaluate(x_test, y_test, batch_size=len(x_test))", "gpuconf.evaluate(...)"),
        ("model(x_test, training=False)", "gpuconf.predict(...)"),
        ("model(x_test, training=True)", "gpuconf.oom_safe(...)"),
        ("session.run(tensors, {images: x_test})", "gpuconf.session_evaluate(...)"),
        ("tensors.eval({images: x_test})", "gpuconf.session_evaluate(...)"),
        ("f(inputs=x_test)", "slices of 32"),
    ],
)
def test_the_call_that_works_in_parts(line: str, call: str) -> None:
    """By name, with Keras's own where there is one; gpuconf has each of them."""
    fix = fix_of(DATA + line)
    assert call in fix
    assert all(hasattr(gpuconf, name) for name in re.findall(r"gpuconf\.(\w+)\(", fix))


def test_images_come_from_their_paths() -> None:
    """By gpuconf, or by Keras."""
    fix = fix_of(IMAGES, "source.images_in_list")
    assert "gpuconf.images.stream(paths, labels" in fix
    assert hasattr(gpuconf.images, "stream")
