"""A training run in little: one tensor of MIB_NEEDED on the GPU, held until stdin closes.

With EMPTY it is allocated and not filled, since gigabytes of zeros are half a minute's work.
"""

import json
import os
import sys

import numpy
import tensorflow as tf

needed_mib = int(os.environ.get("MIB_NEEDED", "1536"))
shape = (needed_mib, 1024, 256)
if os.environ.get("EMPTY"):
    tensor = tf.raw_ops.Empty(shape=shape, dtype=tf.float32)
else:
    tensor = tf.constant(numpy.zeros(shape, "float32"))
print("RESULT", json.dumps({"device": tensor.device[-5:], "mib": tensor.shape[0]}), flush=True)
sys.stdin.read()
