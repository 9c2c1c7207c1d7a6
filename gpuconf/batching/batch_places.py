"""Which samples each batch has, epoch by epoch: in order, or in Keras's own shuffled order.

With the same seed (``keras.utils.set_random_seed``) the order is that of ``model.fit`` on arrays.
TensorFlow seeds each operation by the number of operations before it in its function, so the
shuffling function has the operations of Keras's (keras/src/trainers/data_adapters/
array_data_adapter.py), and a test compares the orders.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple


class Places(NamedTuple):
    """Samples from ``first`` on, so many, in batches of ``size``; the last one may be shorter."""

    first: int
    samples: int
    size: int

    @property
    def batches(self) -> int:
        """How many batches that makes."""
        return math.ceil(self.samples / self.size)


def batches_of_places(places: Places, shuffle: bool | str, repeats: int) -> Any:
    """A ``tf.data.Dataset`` of int64 places, a batch of them at a time.

    ``shuffle`` is Keras 3's: True, False, or ``"batch"`` for another order within each batch.
    """
    import tensorflow as tf

    first, samples, size = places

    def of_epoch(_: Any) -> Any:
        indices = tf.range(samples, dtype=tf.int64)
        if shuffle and shuffle != "batch":
            indices = tf.random.shuffle(indices)
        return indices + first if first else indices

    def in_batches(indices: Any) -> Any:
        whole = samples // size * size
        batches = tf.data.Dataset.from_tensor_slices(tf.reshape(indices[:whole], [-1, size]))
        if whole < samples:
            batches = batches.concatenate(tf.data.Dataset.from_tensors(indices[whole:]))
        return batches

    epochs = tf.data.Dataset.range(1)
    if repeats > 1:
        epochs = epochs.repeat(repeats)
    batches = epochs.map(of_epoch).prefetch(1).flat_map(in_batches)
    return batches.map(tf.random.shuffle) if shuffle == "batch" else batches
