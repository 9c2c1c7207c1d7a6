"""A session of TensorFlow 1 that wants 90 % of the GPU."""

import tensorflow as tf

tf.compat.v1.disable_eager_execution()

config = tf.compat.v1.ConfigProto()
config.gpu_options.per_process_gpu_memory_fraction = 0.9

weights = tf.compat.v1.get_variable("dense/kernel", [8192, 4096])
loss = tf.reduce_mean(tf.matmul(tf.ones([16, 8192]), weights))
with tf.compat.v1.Session(config=config) as session:
    session.run(tf.compat.v1.global_variables_initializer())
    print("loss:", session.run(loss))
