"""Synthetic data in place of what public scripts load: same shapes and dtypes, fewer examples.

A script imports it behind its first import of TensorFlow or Keras (`tests.public.edits` adds that).
Only loaders are replaced. Nothing here touches a model, a batch size or a training loop.
"""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import sys
from typing import Any

import numpy as np

EXAMPLES = int(os.environ.get("STAND_IN_EXAMPLES", "320"))
TEST_EXAMPLES = int(os.environ.get("STAND_IN_TEST_EXAMPLES", str(max(EXAMPLES // 4, 1))))
FOLDER = pathlib.Path(os.environ.get("STAND_IN_FOLDER", ".")).resolve()
RANDOM = np.random.default_rng(7)


def images(
    count: int, shape: tuple[int, ...], classes: int, column: bool = False
) -> tuple[Any, Any]:
    """Images as uint8 and their classes, as the loaders of keras.datasets return them."""
    pictures = RANDOM.integers(0, 256, (count, *shape), dtype=np.uint8)
    labels = np.arange(count) % classes
    return pictures, labels.astype("uint8").reshape((-1, 1) if column else (-1,))


def image_loader(shape: tuple[int, ...], classes: int, column: bool = False) -> Any:
    """A `load_data` of images."""

    def load_data(*_: Any, **__: Any) -> Any:
        return (
            images(EXAMPLES, shape, classes, column),
            images(TEST_EXAMPLES, shape, classes, column),
        )

    return load_data


def load_sequences(num_words: int | None = None, **_: Any) -> Any:
    """`imdb.load_data`: reviews as lists of word numbers, and 0 or 1."""

    def part(count: int) -> tuple[Any, Any]:
        lengths = RANDOM.integers(60, 400, count)
        reviews = [RANDOM.integers(1, num_words or 20000, length).tolist() for length in lengths]
        return np.array(reviews, dtype=object), np.arange(count) % 2

    return part(EXAMPLES), part(TEST_EXAMPLES)


def get_file(fname: str | None = None, origin: str = "", *_: Any, **__: Any) -> str:
    """`keras.utils.get_file`: the file that the list of scripts describes, by its name."""
    return str(FOLDER / pathlib.Path(fname or origin).name)


def image_dataset_from_directory(
    *_directory_and_labels: Any,
    label_mode: Any = "int",
    batch_size: int | None = 32,
    image_size: tuple[int, int] = (256, 256),
    **_: Any,
) -> Any:
    """Batches of float32 images of the size that was asked for; classes 0 and 1."""
    import tensorflow as tf

    pictures = RANDOM.integers(0, 256, (EXAMPLES, *image_size, 3)).astype("float32")
    parts = pictures if label_mode is None else (pictures, np.arange(EXAMPLES, dtype="int32") % 2)
    dataset = tf.data.Dataset.from_tensor_slices(parts)
    dataset = dataset.batch(batch_size) if batch_size else dataset
    dataset.class_names = ["a", "b"]
    return dataset


def local_copy(reader: Any) -> Any:
    """A reader of tables, which opens the local file of the same name instead of an address."""

    def read(source: Any, *args: Any, **kwargs: Any) -> Any:
        if str(source).startswith("http"):
            source = str(FOLDER / pathlib.Path(str(source)).name)
        return reader(source, *args, **kwargs)

    return read


def replace_loaders(keras: Any) -> None:
    """Put the stand-ins into a `keras` package."""
    sets = keras.datasets
    for name in ("mnist", "fashion_mnist"):
        getattr(sets, name).load_data = image_loader((28, 28), 10)
    sets.cifar10.load_data = image_loader((32, 32, 3), 10, column=True)
    sets.cifar100.load_data = image_loader((32, 32, 3), 100, column=True)
    sets.imdb.load_data = load_sequences
    keras.utils.get_file = get_file
    keras.utils.image_dataset_from_directory = image_dataset_from_directory


def write_peak(path: str) -> None:
    """The allocator's own peak, for the run to the end."""
    import tensorflow as tf

    info = tf.config.experimental.get_memory_info("GPU:0")
    pathlib.Path(path).write_text(json.dumps(info))


def begin() -> None:
    """Replace the loaders of whatever is imported; note the peak at the end if asked."""
    import pandas as pd

    for name in ("keras", "tf_keras"):
        if name in sys.modules:
            replace_loaders(sys.modules[name])
    if "tensorflow" in sys.modules:
        replace_loaders(sys.modules["tensorflow"].keras)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].waitforbuttonpress = lambda *_, **__: True
    np.loadtxt = local_copy(np.loadtxt)
    pd.read_csv = local_copy(pd.read_csv)
    if os.environ.get("STAND_IN_PEAK"):
        atexit.register(write_peak, os.environ["STAND_IN_PEAK"])


begin()
