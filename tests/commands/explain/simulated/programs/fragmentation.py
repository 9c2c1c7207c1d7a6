"""Every other of the tensors that fill the limit is dropped, then a longer one is requested."""

import tensorflow as tf

gpu = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(
    gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1024)]
)

cache = {}
for step in range(15):
    cache[step] = tf.zeros([16, 1024, 1024], name="cached")
for step in range(0, 15, 2):
    del cache[step]
print("in the cache:", sorted(cache))

window = tf.zeros([48, 1024, 1024])
print(window.shape)
