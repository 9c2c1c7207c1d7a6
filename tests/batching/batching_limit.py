"""A program for ``test_batching_limit``: more than fits into 300 MB, by Keras or by us.

``keras`` as its argument, without a limit, tells what is right; ``gpuconf``, under one, shows that
Keras runs out of memory and what we give.  Prints ``TOLD`` and JSON; outputs go into a file.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import gpuconf

SAMPLES = 10_000
BATCH = 2_200  # of training, 211 MiB for one layer's outputs; the last one has 400
TRAINED = 2_600


def pictures() -> tuple[Any, Any]:
    """Grey pictures, half of them brighter, and which those are."""
    rng = np.random.default_rng(1)
    bright = rng.integers(0, 2, SAMPLES).astype("float32")
    x = rng.random((SAMPLES, 28, 28, 1), dtype=np.float32)
    return x * (0.6 + 0.4 * bright[:, None, None, None]), bright


def network(optimizer: Any) -> Any:
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
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC()])
    return model


def dies_in_one_piece(model: Any, x: Any, y: Any) -> bool:
    """Whether Keras runs out of memory."""
    try:
        model.evaluate(x, y, batch_size=SAMPLES, verbose=0)
    except tf.errors.ResourceExhaustedError:
        return True
    return False


def main() -> None:
    """Evaluate and predict, in one piece and with the automatic size, and fit."""
    by_keras, file = sys.argv[1] == "keras", sys.argv[2]
    x, y = pictures()
    told: dict[str, Any] = {}
    model = network("sgd")
    if by_keras:
        for size, name in ((SAMPLES, "whole"), (999, "partial")):
            told[name] = model.evaluate(x, y, batch_size=size, verbose=0)
        outputs = model.predict(x, batch_size=1024, verbose=0)
    else:
        told["dies"] = dies_in_one_piece(model, x, y)
        told["whole"] = gpuconf.evaluate(model, x, y, batch_size=SAMPLES, verbose=0)
        told["partial"] = gpuconf.evaluate(model, x, y, batch_size=999, verbose=0)
        outputs = gpuconf.predict(model, x, verbose=0)
    np.save(file, outputs)
    begun = time.monotonic()
    for name in ("SGD", "Adam"):
        model = network(getattr(keras.optimizers, name)(0.05))
        fit = model.fit if by_keras else lambda *a, m=model, **k: gpuconf.fit(m, *a, **k)
        data: dict[str, Any] = {"batch_size": BATCH, "epochs": 2, "verbose": 0}
        told[name] = fit(x[:TRAINED], y[:TRAINED], **data).history["loss"]
    told["seconds"] = time.monotonic() - begun
    print("TOLD", json.dumps(told))


main()
