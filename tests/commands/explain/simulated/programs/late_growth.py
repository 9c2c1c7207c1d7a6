"""Memory growth is set after the first tensor was made."""

import tensorflow as tf

mean = tf.constant([0.485, 0.456, 0.406])

for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(gpu, True)

print(mean)
