"""Batch sizes and numbers of examples in ``fit``'s data, without reading a batch if possible."""

from __future__ import annotations

import sys
from typing import Any

from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.training import dataset_batch_size

DEFAULT_SIZE = 32  # for arrays in fit, evaluate and predict
PER_EXAMPLE = ("x", "y", "sample_weight")  # their arguments with one row per example


def is_dataset(data: Any) -> bool:
    """Whether the data is a ``tf.data.Dataset``."""
    import tensorflow

    return isinstance(data, tensorflow.data.Dataset)


def is_array(data: Any) -> bool:
    """Whether fit() would cut the data into batches itself: arrays, tensors, frames, nests of
    them."""
    leaves = [] if is_sequence(data) else nests.leaves(data)
    return bool(leaves) and all(hasattr(leaf, "shape") or isinstance(leaf, list) for leaf in leaves)


def is_sequence(data: Any) -> bool:
    """Whether the data is a Keras 3 PyDataset or a Keras 2 Sequence."""
    classes = (
        getattr(getattr(sys.modules.get(keras), "utils", None), name, None)
        for keras in ("keras", "tf_keras")
        for name in ("PyDataset", "Sequence")
    )
    return any(isinstance(each, type) and isinstance(data, each) for each in classes)


def examples(batch: Any) -> int | None:
    """The number of examples in a batch, or in all the data; None if it cannot be determined."""
    for leaf in nests.leaves(batch):
        shape = getattr(leaf, "shape", None)
        if shape is not None and len(shape):
            return int(shape[0])
        if isinstance(leaf, list):
            return len(leaf)
    return None


def dataset_batch(data: Any) -> int | None:
    """The batch size of a ``tf.data.Dataset``: from its shape, its ``batch()``, or an element.

    Reading the first element is exact but may take minutes (a shuffle buffer is filled first), so
    it is tried last.
    """
    import tensorflow

    for spec in tensorflow.nest.flatten(data.element_spec):
        shape = getattr(spec, "shape", None)
        if shape is not None and shape.rank and shape[0] is not None:
            return int(shape[0])
    found = dataset_batch_size(data)
    return found or next((examples(element) for element in data.take(1)), None)


def dataset_examples(data: Any, own: int | None) -> int | None:
    """The maximum number of examples in a dataset with batches of ``own``; None if unknown."""
    batches = int(data.cardinality())
    return None if own is None or batches < 1 else batches * own
