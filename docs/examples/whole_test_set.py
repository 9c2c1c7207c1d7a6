"""The classic end of a successful training run: the whole test set in one batch.

python whole_test_set.py             # Keras evaluates; fails on a 1 GiB GPU
python whole_test_set.py gpuconf     # the same, in batches that fit
"""

import sys

import keras
import numpy as np

import gpuconf

rng = np.random.default_rng(1)
images = rng.random((10_000, 28, 28, 1), dtype=np.float32)  # 30 MiB
labels = rng.integers(0, 10, 10_000)

keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),  # 957 MiB for 10000 images
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

if sys.argv[1:] == ["gpuconf"]:
    loss, accuracy = gpuconf.evaluate(model, images, labels, batch_size=len(images), verbose=0)
else:
    loss, accuracy = model.evaluate(images, labels, batch_size=len(images), verbose=0)
print(f"loss {loss:.6f}, accuracy {accuracy:.4f} of {len(images)} images")
