"""The same in a TensorFlow 1 graph: ``accuracy`` of the whole test set in one ``run``.

python graph_test_set.py             # fails on a 1 GiB GPU
python graph_test_set.py gpuconf     # in batches that fit
"""

import sys

import numpy as np
import tensorflow.compat.v1 as tf

import gpuconf

tf.disable_eager_execution()
rng = np.random.default_rng(1)
images = rng.random((10_000, 784), dtype=np.float32)
labels = rng.integers(0, 10, 10_000)

x = tf.placeholder(tf.float32, [None, 784])
y_ = tf.placeholder(tf.int64, [None])
keep_prob = tf.placeholder(tf.float32)
filters = tf.get_variable("filters", [5, 5, 1, 32])
hidden = tf.nn.relu(tf.nn.conv2d(tf.reshape(x, [-1, 28, 28, 1]), filters, 1, "SAME"))
dropped = tf.nn.dropout(tf.reduce_mean(hidden, [1, 2]), rate=1 - keep_prob)
y = tf.matmul(dropped, tf.get_variable("weights", [32, 10]))
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(y, 1), y_), tf.float32))

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    feed = {x: images, y_: labels, keep_prob: 1.0}
    if sys.argv[1:] == ["gpuconf"]:
        print("accuracy", gpuconf.session_evaluate(session, accuracy, feed))
    else:
        print("accuracy", session.run(accuracy, feed))
