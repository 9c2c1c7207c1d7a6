"""Training from a generator is fine; evaluate() is then given the whole test set as an array."""

import keras
import numpy as np


class Batches(keras.utils.PyDataset):
    """Four batches of 16 images."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return np.zeros((16, 160, 160, 3), "float32"), np.zeros((16, 1), "float32")


test_images = np.zeros((4000, 160, 160, 3), dtype="float32")
test_labels = np.zeros((4000, 1), dtype="float32")

model = keras.Sequential(
    [
        keras.layers.Input((160, 160, 3)),
        keras.layers.Conv2D(4, 3, strides=2, activation="relu"),
        keras.layers.GlobalMaxPooling2D(),
        keras.layers.Dense(1),
    ]
)
model.compile("sgd", "mse")
model.fit(Batches(), epochs=1, verbose=2)
print("test:", model.evaluate(test_images, test_labels, batch_size=16, verbose=2))
