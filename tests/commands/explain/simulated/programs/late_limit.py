"""A memory limit is set after a model was built."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.layers.Input((32,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")

gpus = tf.config.list_physical_devices("GPU")
tf.config.set_logical_device_configuration(
    gpus[0],
    [tf.config.LogicalDeviceConfiguration(memory_limit=1024)],
)
model.fit(tf.zeros([64, 32]), tf.zeros([64, 1]))
