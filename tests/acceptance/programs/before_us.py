"""TensorFlow has initialized its GPUs before gpuconf comes: by a tensor, or without a trace."""

import json
import os

import tensorflow as tf
from tensorflow.python.client import device_lib

if os.environ["MAKER"] == "tensor":
    x = tf.constant([1.0])
if os.environ["MAKER"] == "silent":
    names = [d.name for d in device_lib.list_local_devices()]

error = None
try:
    import gpuconf.auto  # noqa: F401  # the import is the act
except RuntimeError as caught:
    error = f"{type(caught).__name__}: {caught}"
changed = [name for name in os.environ if name in ("GPUCONF_STATE", "TF_FORCE_GPU_ALLOW_GROWTH")]
print("RESULT", json.dumps({"error": error, "changed": changed}))
