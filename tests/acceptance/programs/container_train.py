"""A user's program in a container: TensorFlow under gpuconf, until it is killed.

It prints a line of JSON with its limit, or with the shortage, and takes TAKE MiB of the GPU.
"""

import json
import os
import signal
import sys

import gpuconf.auto  # noqa: F401  # before the framework
from gpuconf import ShortageError, activation

try:
    import tensorflow as tf

    tf.config.list_logical_devices("GPU")
except ShortageError as error:
    print(json.dumps({"shortage": str(error)}), flush=True)
    sys.exit(1)

made = activation()
gpu = made.plan.gpus[0]
taken = None
if os.environ.get("TAKE"):
    taken = tf.raw_ops.Empty(shape=(int(os.environ["TAKE"]), 1024, 256), dtype=tf.float32)
limit = next(each.effective for each in made.settings if each.name.startswith("limit of"))
print(
    json.dumps({"pid": os.getpid(), "limit": str(limit), "lease_bytes": gpu.lease_bytes}),
    flush=True,
)
signal.pause()
