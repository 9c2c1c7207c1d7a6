"""What the programs of two tests learn: which of 10000 pictures are brighter, by a convolution."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

SAMPLES = 10_000


def pictures() -> tuple[Any, Any]:
    """Grey pictures, half of them brighter, and which those are."""
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
