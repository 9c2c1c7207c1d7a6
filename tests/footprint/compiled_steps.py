"""A program: the peaks of steps that XLA compiles, as TensorFlow's allocator counts them.

On a simulated card, launches skipped: numbers mean nothing, memory is XLA's own.
"""

from __future__ import annotations

import json
import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCH = 64


def perceptron() -> keras.Model:
    """Dense layers and dropout."""
    hidden = [layers.Dense(1024, activation="gelu"), layers.Dropout(0.2), layers.Dense(512)]
    return keras.Sequential([keras.Input((784,)), *hidden, layers.Dense(10)])


def convnet() -> keras.Model:
    """Convolutions in blocks, as networks for images are."""
    model = keras.Sequential([keras.Input((32, 32, 3))])
    for filters in (32, 64):
        model.add(layers.Conv2D(filters, 3, padding="same"))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
        model.add(layers.MaxPooling2D())
    model.add(layers.Flatten())
    model.add(layers.Dense(10))
    return model


def encoder() -> keras.Model:
    """Attention over an embedding."""
    inputs = keras.Input((64,), dtype="int32")
    x = layers.Embedding(2000, 128)(inputs)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 32)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(128)(layers.Dense(512, "gelu")(x)))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


MODELS = {"perceptron": perceptron, "convnet": convnet, "encoder": encoder}


def compiled(name: str) -> keras.Model:
    """A model as Keras's default has it: nothing is said of jit_compile."""
    model = MODELS[name]()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def _peak(name: str) -> int:
    """The peak of building and three steps, in bytes."""
    model = compiled(name)
    assert model.jit_compile, "there is a GPU"
    shape, dtype = model.inputs[0].shape[1:], model.inputs[0].dtype
    data = np.zeros((BATCH, *shape), dtype), np.zeros(BATCH, "int32")
    for _ in range(3):
        model.train_on_batch(*data)
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])


if __name__ == "__main__":
    print("PEAK", json.dumps(_peak(sys.argv[1])))
