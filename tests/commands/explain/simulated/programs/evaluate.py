"""The second process: takes what it can get of the GPU, or as many MiB as are named, and waits."""

import sys

import tensorflow as tf

if len(sys.argv) > 1:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("GPU")[0],
        [tf.config.LogicalDeviceConfiguration(memory_limit=int(sys.argv[1]))],
    )
weights = tf.zeros([1024])
print("ready", flush=True)
sys.stdin.read()
