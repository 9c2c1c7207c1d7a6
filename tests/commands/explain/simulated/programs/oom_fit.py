"""A small convolutional network trained with fit() at a batch of 64 that does not fit."""

import keras
import numpy as np

images = np.random.default_rng(0).random((256, 128, 128, 3), dtype="float32")
labels = np.arange(256) % 10

model = keras.Sequential(
    [
        keras.layers.Input((128, 128, 3)),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(images, labels, batch_size=64, epochs=3)
print("done")
