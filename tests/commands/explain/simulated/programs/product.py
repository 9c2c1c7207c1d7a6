"""The first operation that wants cuBLAS, on a GPU whose memory is all given to tensors."""

import tensorflow as tf

gpu = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(
    gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=4040)]
)

left = tf.ones([64, 1024])
right = tf.ones([1024, 256])
print(tf.matmul(left, right).shape)
