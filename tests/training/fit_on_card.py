"""A user's training that needs some 1.9 GB of the card; `WITH_GPUCONF` puts our line on top.

Prints ``TRAINING`` after the first step and then waits for a line on stdin before it goes on, so
that a test can have two of them at once; prints ``DONE`` with what TensorFlow had in use at most.
``UNITS`` sets its size.
"""

from __future__ import annotations

import os
import sys

if os.environ.get("WITH_GPUCONF"):
    import gpuconf.auto  # noqa: F401

import keras
import numpy as np
import tensorflow as tf

UNITS = int(os.environ.get("UNITS", "60000"))


class Gate(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Stops after the first step until it is told to go on."""

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:  # noqa: ARG002
        """Tell, and wait."""
        if batch == 0:
            print("TRAINING", flush=True)
            sys.stdin.readline()


def main() -> None:
    """Train a wide and shallow network for two steps."""
    model = keras.Sequential(
        [keras.Input((2000,)), keras.layers.Dense(UNITS, activation="relu"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", jit_compile=False)
    x = np.ones((4, 2000), np.float32)
    model.fit(x, np.ones((4, 1), np.float32), batch_size=2, verbose=0, callbacks=[Gate()])
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    print("DONE", peak, flush=True)


if __name__ == "__main__":
    main()
