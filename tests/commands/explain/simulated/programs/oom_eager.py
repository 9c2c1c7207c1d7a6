"""A 3x3 convolution to 512 channels, eager, whose output of 1 GiB the GPU does not hold."""

import tensorflow as tf

images = tf.random.normal([8, 256, 256, 64])
kernel = tf.random.normal([3, 3, 64, 512])
features = tf.nn.conv2d(images, kernel, strides=1, padding="SAME")
print("features:", features.shape)
