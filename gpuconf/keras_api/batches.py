"""What the data that ``fit`` is given says of its batches, without taking one where it can be."""

from __future__ import annotations

import sys
from typing import Any

from gpuconf.keras_api import nests
from gpuconf.keras_api.training import dataset_batch_size

DEFAULT_SIZE = 32  # of fit, evaluate and predict, for arrays
PER_EXAMPLE = ("x", "y", "sample_weight")  # their arguments with a row for each example


def is_dataset(data: Any) -> bool:
    """Whether it is a ``tf.data.Dataset``."""
    import tensorflow

    return isinstance(data, tensorflow.data.Dataset)


def is_array(data: Any) -> bool:
    """Whether fit() would cut it into batches itself: arrays, tensors, frames, nests of them."""
    leaves = nests.leaves(data)
    return bool(leaves) and all(hasattr(leaf, "shape") or isinstance(leaf, list) for leaf in leaves)


def is_sequence(data: Any) -> bool:
    """Whether it is a PyDataset of Keras 3 or a Sequence of Keras 2."""
    classes = (
        getattr(getattr(sys.modules.get(keras), "utils", None), name, None)
        for keras in ("keras", "tf_keras")
        for name in ("PyDataset", "Sequence")
    )
    return any(isinstance(each, type) and isinstance(data, each) for each in classes)


def examples(batch: Any) -> int | None:
    """How many examples a batch, or all the data, has; None where it cannot be seen."""
    for leaf in nests.leaves(batch):
        shape = getattr(leaf, "shape", None)
        if shape is not None and len(shape):
            return int(shape[0])
        if isinstance(leaf, list):
            return len(leaf)
    return None


def dataset_batch(data: Any) -> int | None:
    """The batch of a ``tf.data.Dataset``: its shape's, its ``batch()``'s, or its first element's.

    The last is the truth but may take minutes (a shuffle buffer is filled first), so it is asked
    last.
    """
    import tensorflow

    for spec in tensorflow.nest.flatten(data.element_spec):
        shape = getattr(spec, "shape", None)
        if shape is not None and shape.rank and shape[0] is not None:
            return int(shape[0])
    found = dataset_batch_size(data)
    return found or next((examples(element) for element in data.take(1)), None)


def dataset_examples(data: Any, own: int | None) -> int | None:
    """How many examples a dataset in batches of ``own`` has at most; None if that is not known."""
    batches = int(data.cardinality())
    return None if own is None or batches < 1 else batches * own
