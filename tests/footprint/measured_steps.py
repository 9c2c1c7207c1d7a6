"""A program for ``test_measured_peaks``: what steps of small networks take of TensorFlow's memory.

Its arguments are the device that counts, ``CPU:0`` or ``GPU:0``, and cases as ``convnet adam``.
Prints a line for each, ``TOLD`` and JSON: what was measured, and what is estimated, in bytes.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import gpuconf

BATCH = 32
STEPS = 2


def convnet() -> Any:
    """Convolutions, normalisation, pooling."""
    stack: list[Any] = [keras.Input((48, 48, 3))]
    for filters in (24, 48):
        stack += [layers.Conv2D(filters, 3, padding="same"), layers.BatchNormalization()]
        stack += [layers.ReLU(), layers.MaxPooling2D()]
    return keras.Sequential([*stack, layers.Flatten(), layers.Dense(10)])


def transformer() -> Any:
    """One block: attention and two dense layers, each with a skip."""
    inputs = keras.Input((64, 128))
    seen = layers.MultiHeadAttention(4, 32)(inputs, inputs)
    joined = layers.LayerNormalization()(inputs + seen)
    wide = layers.Dense(128)(layers.Dense(512, activation="gelu")(joined))
    outputs = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(joined + wide))
    return keras.Model(inputs, layers.Dense(10)(outputs))


def lstm() -> Any:
    """Sixty steps of a recurrent layer, by TensorFlow's own loop on every device."""
    recurrent = layers.LSTM(128, use_cudnn=False)
    return keras.Sequential([keras.Input((60, 64)), recurrent, layers.Dense(10)])


MODELS: dict[str, Callable[[], Any]] = {
    "convnet": convnet,
    "transformer": transformer,
    "lstm": lstm,
}


def main(device: str, *cases: str) -> None:
    """Measure and estimate the cases."""
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for case in cases:
        name, optimizer = case.split()
        print("TOLD", json.dumps({"case": case, **measured(MODELS[name], optimizer, device)}))


def measured(make: Callable[[], Any], optimizer: str, device: str) -> dict[str, int]:
    """The most in use beyond what was there before, from building the model to the last step."""
    gc.collect()
    before = tf.config.experimental.get_memory_info(device)["current"]
    tf.config.experimental.reset_memory_stats(device)
    model = make()
    model.compile(optimizer, "mse", jit_compile=False)
    inputs = np.zeros((BATCH, *model.inputs[0].shape[1:]), "float32")
    for _ in range(STEPS):
        model.train_on_batch(inputs, np.zeros((BATCH, 10), "float32"))
    peak = tf.config.experimental.get_memory_info(device)["peak"] - before
    # The CPU's allocator takes its memory in regions, and that of a GPU all of it at once.
    made = gpuconf.estimate(model, BATCH, jit=False, allow_growth=device == "CPU:0")
    return {"measured": peak, "estimated": made.peak_bytes}


if __name__ == "__main__":
    main(*sys.argv[1:])
