"""Take 64 MiB at a time until TensorFlow says no; note what the GPU says after each."""

import json
import os

import tensorflow as tf

from gpuconf.machine.cards import read_inventory


def held_mib():
    """What the GPU says this process and its neighbors hold."""
    return read_inventory().gpus[0].used_bytes >> 20


tf.config.list_logical_devices("GPU")  # a GPU counts the context that this makes
before = held_mib()
held, steps, error = [], [], None
with tf.device("GPU:0"):
    for _ in range(int(os.environ.get("MOST_STEPS", "40"))):
        try:
            held.append(tf.raw_ops.Empty(shape=[64, 1024, 256], dtype=tf.float32))
        except tf.errors.ResourceExhaustedError as caught:
            error = type(caught).__name__
            break
        steps.append(held_mib() - before)
print("RESULT", json.dumps({"steps": steps, "tensors": len(held), "error": error}))
