"""A script of 2018, which knows nothing of gpuconf: it requests 0.9 of the GPU, as many did.

The data lie on the GPU. The model is on the CPU, since a simulated GPU computes nothing for a
TensorFlow of that time; TensorFlow takes its share of the GPU anyway.
"""

import keras
import numpy as np
import tensorflow as tf
from keras.backend.tensorflow_backend import set_session

config = tf.ConfigProto(allow_soft_placement=True)
config.gpu_options.per_process_gpu_memory_fraction = 0.9
session = tf.Session(config=config)
set_session(session)

x = np.random.RandomState(0).rand(256, 8).astype("float32")
y = x.sum(axis=1)
with tf.device("/gpu:0"):
    on_card = tf.constant(x)
x = session.run(on_card)

with tf.device("/cpu:0"):
    model = keras.models.Sequential()
    model.add(keras.layers.Dense(16, activation="relu", input_shape=(8,)))
    model.add(keras.layers.Dense(1))
    model.compile(optimizer="sgd", loss="mse")
    losses = model.fit(x, y, batch_size=32, epochs=20, verbose=0).history["loss"]
assert losses[-1] < losses[0] / 2, losses
print(f"Keras {keras.__version__}, TensorFlow {tf.__version__}: trained")
