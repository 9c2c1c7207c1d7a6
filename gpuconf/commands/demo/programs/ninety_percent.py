"""A script from the TensorFlow 1 era that requests 90 % of the GPU."""

import json
import sys

import tensorflow as tf

tf.compat.v1.disable_eager_execution()
config = tf.compat.v1.ConfigProto()
config.gpu_options.per_process_gpu_memory_fraction = 0.9
session = tf.compat.v1.Session(config=config)
value = tf.compat.v1.placeholder("float32", [256, 1024, 256])
total = session.run(tf.identity(value), {value: __import__("numpy").ones((256, 1024, 256))}).sum()
limits = [d.memory_limit_bytes >> 20 for d in session.list_devices() if d.device_type == "GPU"]
print("RESULT", json.dumps({"total": float(total), "limits": limits}), flush=True)
sys.stdin.read()
