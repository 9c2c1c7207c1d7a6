"""Memory growth is set on the first of two GPUs only."""

import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
print("GPUs:", gpus)
tf.config.experimental.set_memory_growth(gpus[0], True)

weights = tf.Variable(tf.zeros([100, 10]))
print(weights.device)
