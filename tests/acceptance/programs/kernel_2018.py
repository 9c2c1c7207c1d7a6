"""Asks the GPU to add: on a simulated GPU for old stacks it must end here, and not with zeros."""

import tensorflow as tf

with tf.device("/gpu:0"):
    numbers = tf.placeholder(tf.float32, [2])
    doubled = numbers + numbers
print("RESULT", tf.Session().run(doubled, {numbers: [1.0, 2.0]}))
