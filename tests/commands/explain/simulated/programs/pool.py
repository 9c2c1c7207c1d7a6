"""The first operation that wants cuDNN, on a GPU whose memory is all given to tensors."""

import tensorflow as tf

gpu = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(
    gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=4040)]
)

images = tf.ones([8, 64, 128, 128])
pooled = tf.nn.avg_pool2d(images, 2, 2, "VALID", data_format="NCHW")
print(pooled.shape)
