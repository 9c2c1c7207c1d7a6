"""Three matrices of 256 MiB, of which the third does not fit."""

import tensorflow as tf

left = tf.ones([8192, 8192])
right = tf.ones([8192, 8192])
total = tf.add(left, right)
print(total.shape)
