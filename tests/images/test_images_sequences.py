"""``gpuconf.images.sequence``: the same pictures for Keras on JAX, without TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.inside_tensorflow import PLAIN
from tests.programs.processes import run_python

pytestmark = pytest.mark.slow

_PROGRAM = """
import contextlib
import io
import os
import sys
from pathlib import Path

import keras
import numpy as np
from tests.images.image_files import CORNERS, broken_files, colors_at_corners, every_kind
from tests.images.image_files import greys_of_16_bits, plain, plains, turned
from gpuconf.images import ImageError, sequence

assert keras.backend.backend() == "jax"
here = Path.cwd()


def greys(made, epoch_ends=True):
    found = [round(float(v)) for n in range(len(made)) for v in made[n][:, 0, 0, 0]]
    if epoch_ends:
        made.on_epoch_end()
    return found


# Complete epochs, the last batch too, each in another order, the same with the same seed.
paths = plains(here / "plain", 10)
first, second = (sequence(paths, size=(8, 8), batch_size=4, seed=1) for _ in range(2))
assert isinstance(first, keras.utils.PyDataset)
epochs = [greys(first) for _ in range(3)]
assert epochs == [greys(second) for _ in range(3)]
assert len(set(map(tuple, epochs))) == 3
assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 3
assert [len(first[n]) for n in range(3)] == [4, 4, 2]
assert len(sequence(paths, size=(8, 8), batch_size=4, drop_remainder=True)) == 2

# Labels, label modes, scaling, augmentation.
made = sequence(paths, range(10), size=(8, 8), batch_size=3, scale="0-1")
for n in range(4):
    images, labels = made[n]
    assert np.allclose(images[:, 0, 0, 0] * 255, labels), (images[:, 0, 0, 0], labels)
made = sequence(paths[:2], ["b", "a"], size=(8, 8), label_mode="categorical", shuffle=False)
assert made[0][1].tolist() == [[0, 1], [1, 0]] and made.class_names == ("a", "b")
flip = keras.layers.RandomFlip("horizontal")
assert sequence(paths, size=(8, 8), augment=[flip, lambda x: x + 1])[0].shape == (10, 8, 8, 3)

# Every kind of file, every orientation.
files = list(every_kind(here / "kinds").values())
files += [turned(here / f"{n}.jpg", n) for n in range(1, 9)]
(pictures,) = list(sequence(files, size=(48, 48), shuffle=False))[:1]
assert pictures.dtype == np.float32
for file, picture in zip(files, pictures):
    for corner, color in colors_at_corners(picture).items():
        assert np.abs(color - CORNERS[corner]).max() < 16, (file, corner, color)
ramp = sequence([greys_of_16_bits(here / "ramp.png")], size=(64, 64), channels=1)[0][0]
assert np.abs(ramp[30, :, 0] - np.linspace(0, 255, 64)).max() < 1.1
wide = turned(here / "wide.jpg", 1, width=200, height=100)
padded = sequence([wide], size=(40, 40), pad_to_aspect_ratio=True)[0][0]
assert padded[2].max() == 0 and padded[20].min(axis=0).max() > 0
cropped = sequence([wide], size=(40, 40), crop_to_aspect_ratio=True)[0][0]
assert cropped[2].max() > 100

# The cache.
cached = sequence(paths, size=(8, 8), cache="memory")
assert sorted(greys(cached)) == list(range(10))
paths[4].write_bytes(b"broken")
assert sorted(greys(cached)) == list(range(10))

# Broken files: named, or skipped and listed.
try:
    greys(sequence(paths, size=(8, 8)))
except ImageError as error:
    assert error.path == str(paths[4]) and "skip" in error.hint
    print("named")
bad = [path for path, _ in broken_files(here / "bad").values()]
made = sequence([*paths, *bad], size=(8, 8), batch_size=32, on_error="skip")
assert len(greys(made)) == 9
assert len(made.skipped) == len(bad) + 1
# A batch of which no file can be read has the next that can.
made = sequence([*paths[:2], bad[0]], size=(8, 8), batch_size=2, shuffle=False, on_error="skip")
assert [greys(made, epoch_ends=False)] == [[0, 1, 0]]
made = sequence(bad, size=(8, 8), on_error="skip")
try:
    made[0]
except ImageError as error:
    assert "none of the" in error.message
    print("none left")

# A training.
for name, low in (("dark", 0), ("light", 150)):
    for number in range(16):
        plain(here / "folder" / name / f"{number}.png", low + 5 * number)
made = sequence(here / "folder", size=(8, 8), batch_size=8, scale="-1-1", seed=1)
layers = [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(1, "sigmoid")]
model = keras.Sequential(layers)
model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
history = model.fit(made, epochs=8, shuffle=False, verbose=0).history
assert history["loss"][-1] < 0.5 * history["loss"][0], history
# What was skipped is said at the end of each epoch, also by a model that is not built yet; broken
# files are in the batches that Keras reads twice, before it begins.
for count in (6, 30):
    few = [bad[0], bad[1], *paths[:4], *paths[5:]][:count]
    few += [file for file in (here / "folder").rglob("*.png")][: count - len(few)]
    made = sequence(few, [0] * count, size=(8, 8), batch_size=3, shuffle=False, on_error="skip")
    unbuilt = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
    unbuilt.compile("sgd", "mse")
    for _ in range(2):
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown):
            unbuilt.fit(made, epochs=2, shuffle=False, verbose=0, validation_data=made)
        lines = shown.getvalue().splitlines()
        assert len(lines) == 4, lines
        assert all(f"skipped 2 of {count} in this epoch" in line for line in lines), lines
ordered = sequence(here / "folder", size=(8, 8), scale="-1-1", label_mode=None, shuffle=False)
predicted = model.predict(ordered, verbose=0)[:, 0] > 0.5
assert predicted.tolist() == ["light" in path for path in ordered.file_paths]
assert "tensorflow" not in sys.modules, "Keras on JAX needs none"
print("trained")

# A stream, which is a dataset of tf.data: Keras on JAX takes it, and its layers augment inside.
from gpuconf.images import stream

augment = keras.Sequential([keras.layers.RandomFlip("horizontal"), keras.layers.RandomZoom(0.1)])
options = {"size": (8, 8), "batch_size": 5, "scale": "0-1", "augment": augment}
dataset = stream(plains(here / "streamed", 12), [0.0] * 12, **options)
model.compile("sgd", "mse")
model.fit(dataset, epochs=2, shuffle=False, verbose=0)
print("streamed")
"""


def test_keras_on_jax(tmp_path: Path) -> None:
    """Pictures, labels, policies, the cache and a training without TensorFlow; then a stream."""
    environ = {**PLAIN, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    output = run_python(_PROGRAM, tmp_path, environ=environ, timeout_s=300)
    assert output.splitlines() == ["named", "none left", "trained", "streamed"]
