"""MirroredStrategy over two logical devices of one card, or over two CPUs: prints its losses."""

from __future__ import annotations

import json
import os

if os.environ.get("WITH_GPUCONF"):
    import gpuconf.auto  # noqa: F401

import keras
import numpy as np
import tensorflow as tf


def main() -> None:
    """Train a small network on both devices."""
    on_card = bool(os.environ.get("WITH_GPUCONF"))
    if not on_card:
        (cpu,) = tf.config.list_physical_devices("CPU")
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        options = {"remapping": False, "layout_optimizer": False}
        tf.config.optimizer.set_experimental_options(options)
    kind = "GPU" if on_card else "CPU"
    strategy = tf.distribute.MirroredStrategy([f"{kind}:0", f"{kind}:1"])
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((12, 12, 3)),
                keras.layers.Conv2D(8, 3, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Flatten(),
                keras.layers.Dense(4),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss)
    random = np.random.default_rng(3)
    x, y = random.random((32, 12, 12, 3), dtype=np.float32), random.integers(0, 4, 32)
    history = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)
    kernel = model.layers[0].kernel.value
    devices = sorted(each.device for each in kernel.values)
    print(json.dumps({"losses": history.history["loss"], "devices": devices}))


if __name__ == "__main__":
    main()
