"""A program for ``test_batching_limit``: more than fits into 300 MB, by Keras or by us.

Its arguments are who does it, a file for outputs, and what, ``evaluate`` and ``fit``.  ``keras``,
without a limit, tells what is right; ``gpuconf``, under one, shows that Keras runs out of memory
and what we give.  Prints ``TOLD`` and JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import tensorflow as tf

import gpuconf
from tests.batching.bright_pictures import SAMPLES, network, pictures

BATCH = 2_200  # of training, 211 MiB for one layer's outputs; the last one has 400
TRAINED = 2_600


def dies_in_one_piece(model: Any, x: Any, y: Any) -> bool:
    """Whether Keras runs out of memory."""
    try:
        model.evaluate(x, y, batch_size=SAMPLES, verbose=0)
    except tf.errors.ResourceExhaustedError:
        return True
    return False


def evaluate(x: Any, y: Any, by_keras: bool, file: str) -> dict[str, Any]:
    """Evaluate and predict, in one piece and with the automatic size."""
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
    return told


def fit(x: Any, y: Any, by_keras: bool) -> dict[str, Any]:
    """The losses of each optimizer's epochs."""
    told: dict[str, Any] = {}
    for optimizer in ("sgd", "adam"):
        model = network(optimizer)
        run = model.fit if by_keras else lambda *a, m=model, **k: gpuconf.fit(m, *a, **k)
        data: dict[str, Any] = {"batch_size": BATCH, "epochs": 2, "verbose": 0}
        told[optimizer] = run(x[:TRAINED], y[:TRAINED], **data).history["loss"]
    return told


def main() -> None:
    """Do what the arguments say."""
    who, file, *parts = sys.argv[1:]
    x, y = pictures()
    told = evaluate(x, y, who == "keras", file) if "evaluate" in parts else {}
    told |= fit(x, y, who == "keras") if "fit" in parts else {}
    print("TOLD", json.dumps(told))


main()
