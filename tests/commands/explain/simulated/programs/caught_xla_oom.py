"""An out-of-memory in a step that XLA compiled is caught, and the model is evaluated anyway."""

import keras
import numpy as np
import tensorflow as tf

images = np.zeros((256, 64, 64, 3), dtype="float32")
labels = np.zeros(256, dtype="int32")

model = keras.Sequential(
    [
        keras.layers.Input((64, 64, 3)),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

try:
    model.fit(images, labels, batch_size=256, verbose=2)
except tf.errors.ResourceExhaustedError as error:
    print(f"no room for it ({type(error).__name__}), evaluating what there is")
# Zeros in, zeros out: ten classes are equally likely, and the loss is the logarithm of 10.
print("loss", model.evaluate(images, labels, batch_size=8, verbose=0), "of", np.log(10))
