"""A program for ``test_batching_on_card``: a whole test set at once, and a batch that is too large.

``keras`` as its argument lets Keras do it, which needs a large card, ``gpuconf`` lets us.  Prints
``TOLD`` and JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import gpuconf

SAMPLES = 10_000
BATCH = 6_000  # of training


def pictures() -> tuple[Any, Any]:
    """10000 grey pictures, half of them brighter, and which those are."""
    rng = np.random.default_rng(1)
    bright = rng.integers(0, 2, SAMPLES).astype("float32")
    x = rng.random((SAMPLES, 28, 28, 1), dtype=np.float32)
    return x * (0.6 + 0.4 * bright[:, None, None, None]), bright


def network(optimizer: str) -> Any:
    """The convolution of the issue: 957 MiB for all samples at once."""
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


def main() -> None:
    """Evaluate and predict in one piece, fit with a large batch."""
    assert tf.config.list_logical_devices("GPU"), "no simulated card"
    by_keras = sys.argv[1] == "keras"
    x, y = pictures()
    model = network("sgd")
    whole: dict[str, Any] = {"batch_size": SAMPLES, "verbose": 0}
    told: dict[str, Any] = {"jit_compile": bool(model.jit_compile)}
    if by_keras:
        told["evaluate"] = model.evaluate(x, y, **whole)
        outputs = model.predict(x, **whole)
    else:
        told["evaluate"] = gpuconf.evaluate(model, x, y, **whole)
        outputs = gpuconf.predict(model, x, **whole)
    told["predict"] = hashlib.sha256(outputs.tobytes()).hexdigest()
    for optimizer in ("sgd", "adam"):
        model = network(optimizer)
        options: dict[str, Any] = {"batch_size": BATCH, "epochs": 2, "verbose": 0}
        fit = model.fit if by_keras else lambda *a, m=model, **k: gpuconf.fit(m, *a, **k)
        told[optimizer] = fit(x, y, **options).history["loss"]
    print("TOLD", json.dumps(told))


main()
