"""A program for ``test_batching_on_card``: a whole test set at once, and a batch that is too large.

``keras`` as its first argument lets Keras do it, which needs a large card, ``gpuconf`` lets us; the
others are what is done, ``evaluate`` and ``fit``.  Prints ``TOLD`` and JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import tensorflow as tf

import gpuconf
from tests.batching.bright_pictures import SAMPLES, network, pictures

BATCH = 6_000  # of training


def evaluate(x: Any, y: Any, by_keras: bool) -> dict[str, Any]:
    """Evaluate and predict in one piece."""
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
    return told


def fit(x: Any, y: Any, by_keras: bool) -> dict[str, Any]:
    """Fit with a large batch, with each optimizer."""
    told: dict[str, Any] = {}
    for optimizer in ("sgd", "adam"):
        model = network(optimizer)
        options: dict[str, Any] = {"batch_size": BATCH, "epochs": 2, "verbose": 0}
        run = model.fit if by_keras else lambda *a, m=model, **k: gpuconf.fit(m, *a, **k)
        told[optimizer] = run(x, y, **options).history["loss"]
    return told


def main() -> None:
    """Do what the arguments say."""
    assert tf.config.list_logical_devices("GPU"), "no simulated card"
    who, *parts = sys.argv[1:]
    x, y = pictures()
    told = evaluate(x, y, who == "keras") if "evaluate" in parts else {}
    told |= fit(x, y, who == "keras") if "fit" in parts else {}
    print("TOLD", json.dumps(told))


main()
