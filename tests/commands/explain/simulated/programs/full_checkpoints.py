"""A training run whose checkpoints go to a disk that is too small for them."""

from small_disk import make_small_disk

make_small_disk("checkpoints")

import keras  # noqa: E402  # TensorFlow reads the mounts when it starts
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

model = keras.Sequential([keras.layers.Dense(512, activation="relu"), keras.layers.Dense(10)])
model.compile("adam", "mse", jit_compile=False)
model.fit(np.ones([256, 256]), np.ones([256, 10]), batch_size=32, epochs=2, verbose=2)
tf.train.Checkpoint(model=model).save("checkpoints/epoch")
