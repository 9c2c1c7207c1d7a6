"""A program: the peak of a step that XLA compiles, as TensorFlow's allocator counts it.

On a simulated GPU, launches skipped: numbers mean nothing, memory is XLA's own.
"""

from __future__ import annotations

import json

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCH = 64


def compiled() -> keras.Model:
    """Convolutions and attention, as Keras's default has it: nothing is said of jit_compile."""
    inputs = keras.Input((32, 32, 3))
    x = layers.BatchNormalization()(layers.Conv2D(64, 3, padding="same")(inputs))
    x = layers.Reshape((64, 64))(layers.MaxPooling2D(4)(layers.ReLU()(x)))
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 32)(x, x))
    x = layers.Dropout(0.2)(layers.Dense(256, "gelu")(layers.Flatten()(x)))
    model = keras.Model(inputs, layers.Dense(10)(x))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _peak() -> int:
    """The peak of building and three steps, in bytes."""
    model = compiled()
    assert model.jit_compile, "there is a GPU"
    data = np.zeros((BATCH, 32, 32, 3), "float32"), np.zeros(BATCH, "int32")
    for _ in range(3):
        model.train_on_batch(*data)
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])


if __name__ == "__main__":
    print("REPORT", json.dumps({"peak": _peak()}))
