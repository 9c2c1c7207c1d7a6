"""XLA writes its temporary files to a disk that is full."""

import os

from small_disk import make_small_disk

make_small_disk("scratch", used=200 * 1024)
os.environ["TMPDIR"] = os.path.abspath("scratch")

import keras  # noqa: E402  # after TMPDIR
import numpy as np  # noqa: E402

model = keras.Sequential([keras.layers.BatchNormalization(), keras.layers.Activation("sigmoid")])
model.compile("sgd", "mse", jit_compile=True)
model.fit(np.ones([256, 64]), np.ones([256, 64]), batch_size=32, epochs=2, verbose=2)
