"""A program that keeps a 1 GiB tensor on the GPU."""

import json
import sys

import tensorflow as tf

with tf.device("GPU:0"):
    tensor = tf.raw_ops.Empty(shape=[256, 1024, 1024], dtype=tf.float32)
in_use_bytes = tf.config.experimental.get_memory_info("GPU:0")["current"]
print("RESULT", json.dumps({"in_use_mib": in_use_bytes >> 20}), flush=True)
sys.stdin.read()  # stays open, like a notebook
