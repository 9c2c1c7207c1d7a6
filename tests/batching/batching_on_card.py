"""A program for ``test_batching_on_card``: a whole test set in one batch, and a batch too large.

Its argument: ``keras``, which needs a large GPU, or ``gpuconf``.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import gpuconf

SAMPLES = 2600
WHOLE: dict[str, Any] = {"batch_size": SAMPLES, "verbose": 0}


def images() -> tuple[Any, Any]:
    """Grey images, half of them brighter, and which those are."""
    rng = np.random.default_rng(1)
    bright = rng.integers(0, 2, SAMPLES).astype("float32")
    x = rng.random((SAMPLES, 28, 28, 1), dtype=np.float32)
    return x * (0.6 + 0.4 * bright[:, None, None, None]), bright


def network(optimizer: str) -> Any:
    """A convolution that needs 249 MiB for all samples at once."""
    keras.utils.set_random_seed(2)
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(1, activation="sigmoid", kernel_regularizer="l2"),
        ]
    )
    chosen = keras.optimizers.get({"class_name": optimizer, "config": {"learning_rate": 0.05}})
    model.compile(chosen, "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC()])
    return model


def runs_out_of_memory(model: Any, x: Any, y: Any) -> bool:
    """Whether Keras cannot evaluate all samples at once, op by op as our own steps."""
    model.jit_compile = False
    try:
        model.evaluate(x, y, **WHOLE)
    except tf.errors.ResourceExhaustedError:
        return True
    return False


def evaluate(x: Any, y: Any, by_keras: bool) -> dict[str, Any]:
    """Evaluate and predict in one batch, and in batches of which the last has ten samples."""
    model = network("sgd")
    values: dict[str, Any] = {"jit_compile": bool(model.jit_compile)}
    run, predict = model.evaluate, model.predict
    if not by_keras:
        values["is refused"] = runs_out_of_memory(network("sgd"), x, y)
        run, predict = (partial(each, model) for each in (gpuconf.evaluate, gpuconf.predict))
    values["whole"] = run(x, y, **WHOLE)
    values["partial"] = run(x, y, batch_size=259, verbose=0)
    values["outputs"] = predict(x, **WHOLE)[:, 0].tolist()
    return values


def fit(x: Any, y: Any, by_keras: bool) -> dict[str, Any]:
    """The losses of two epochs, with each optimizer."""
    values: dict[str, Any] = {}
    for optimizer in ("sgd", "adam"):
        model = network(optimizer)
        options: dict[str, Any] = {"batch_size": 1560, "epochs": 2, "verbose": 0}
        run = model.fit if by_keras else partial(gpuconf.fit, model)
        values[optimizer] = run(x, y, **options).history["loss"]
    return values


x, y = images()
by_keras = sys.argv[1] == "keras"
values = {**evaluate(x, y, by_keras), **fit(x, y, by_keras)}
values["gpus"] = len(tf.config.list_logical_devices("GPU"))
print("REPORT", json.dumps(values))
