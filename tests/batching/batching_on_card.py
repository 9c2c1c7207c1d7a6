"""A program for ``test_batching_on_card``: a whole test set in one batch, and a batch too large.

Its arguments: ``keras``, which needs a large card, or ``gpuconf``; how many samples to train with;
the size of their batches; and what to do, ``evaluate`` or ``fit`` or both.
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
WHOLE: dict[str, Any] = {"batch_size": SAMPLES, "verbose": 0}


def images() -> tuple[Any, Any]:
    """Grey images, half of them brighter, and which those are."""
    rng = np.random.default_rng(1)
    bright = rng.integers(0, 2, SAMPLES).astype("float32")
    x = rng.random((SAMPLES, 28, 28, 1), dtype=np.float32)
    return x * (0.6 + 0.4 * bright[:, None, None, None]), bright


def network(optimizer: str) -> Any:
    """A convolution that needs 957 MiB for all samples at once."""
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
    if by_keras:
        run, predict = model.evaluate, model.predict
    else:
        values["is refused"] = runs_out_of_memory(network("sgd"), x, y)
        run = lambda *data, **options: gpuconf.evaluate(model, *data, **options)  # noqa: E731
        predict = lambda *data, **options: gpuconf.predict(model, *data, **options)  # noqa: E731
    values["whole"] = run(x, y, **WHOLE)
    values["partial"] = run(x, y, batch_size=999, verbose=0)
    outputs = predict(x, **WHOLE)
    values["outputs"] = outputs[:, 0].tolist()
    values["bits"] = hashlib.sha256(outputs.tobytes()).hexdigest()
    return values


def fit(x: Any, y: Any, by_keras: bool, batch_size: int) -> dict[str, Any]:
    """The losses of two epochs, with each optimizer."""
    values: dict[str, Any] = {}
    for optimizer in ("sgd", "adam"):
        model = network(optimizer)
        options: dict[str, Any] = {"batch_size": batch_size, "epochs": 2, "verbose": 0}
        run = model.fit if by_keras else lambda *a, m=model, **k: gpuconf.fit(m, *a, **k)
        values[optimizer] = run(x, y, **options).history["loss"]
    return values


def main() -> None:
    """Do what the arguments say."""
    who, samples, batch_size, *parts = sys.argv[1:]
    x, y = images()
    count, by_keras = int(samples), who == "keras"
    values = evaluate(x, y, by_keras) if "evaluate" in parts else {}
    values |= fit(x[:count], y[:count], by_keras, int(batch_size)) if "fit" in parts else {}
    values["gpus"] = len(tf.config.list_logical_devices("GPU"))
    print("REPORT", json.dumps(values))


main()
