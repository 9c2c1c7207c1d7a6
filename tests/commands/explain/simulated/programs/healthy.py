"""A short training that goes well, with all that TensorFlow says on the way."""

import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.random((512, 28, 28, 1), dtype="float32")
labels = rng.integers(0, 10, 512)

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.layers.Input((28, 28, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(images, labels, batch_size=64, epochs=2)
print("test:", model.evaluate(images[:128], labels[:128], verbose=0))
