"""The batch is halved until a forward pass fits, and training continues to its end.

With ``kept`` what a failure leaves behind keeps the memory.
"""

import gc
import sys

import keras
import numpy as np
import tensorflow as tf

images = np.random.default_rng(0).random((64, 128, 128, 3), dtype="float32")
targets = np.zeros((64, 1), dtype="float32")

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.layers.Input((128, 128, 3)),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1),
    ]
)

batch = 64
while batch:
    try:
        model(images[:batch], training=True)
        break
    except tf.errors.ResourceExhaustedError as error:
        print(f"a batch of {batch} does not fit ({type(error).__name__}), trying {batch // 2}")
        batch //= 2
    if "kept" not in sys.argv:
        gc.collect()  # the failed pass lives on in its traceback

batch //= 2  # the gradients want as much again
print("training with batches of", batch)
model.compile("adam", "mse")
model.fit(images, targets, batch_size=batch, epochs=2, verbose=2)
print("finished")
