"""A graph of TensorFlow 1 at 1280x720 that asks which tensors there are when memory is out."""

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()

BATCH = 2
images = tf.compat.v1.placeholder(tf.float32, [BATCH, 720, 1280, 3], name="images")
with tf.compat.v1.variable_scope("conv1"):
    kernel = tf.compat.v1.get_variable("kernel", [3, 3, 3, 64])
    bias = tf.compat.v1.get_variable("bias", [64])
    conv = tf.nn.conv2d(images, kernel, strides=1, padding="SAME", name="Conv2D")
    biased = tf.nn.bias_add(conv, bias, name="BiasAdd")
planes = tf.transpose(biased, [0, 3, 1, 2], name="to_planes")
with tf.compat.v1.variable_scope("skip"):
    merged = tf.concat([conv, biased], axis=-1, name="concat")
score = tf.reduce_mean(merged, name="score") + tf.reduce_max(planes, name="peak")

options = tf.compat.v1.RunOptions(report_tensor_allocations_upon_oom=True)
with tf.compat.v1.Session() as session:
    session.run(tf.compat.v1.global_variables_initializer())
    frames = np.ones([BATCH, 720, 1280, 3], dtype="float32")
    print(session.run(score, feed_dict={images: frames}, options=options))
