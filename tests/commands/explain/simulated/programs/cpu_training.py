"""A training run that continues on the CPU when TensorFlow finds no GPU."""

import keras
import numpy as np
import tensorflow as tf

print("Num GPUs Available: ", len(tf.config.list_physical_devices("GPU")))
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(np.ones((256, 16), "float32"), np.ones((256, 1), "float32"), epochs=2)
