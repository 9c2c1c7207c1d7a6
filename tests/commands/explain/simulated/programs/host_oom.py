"""A data set is to be made in host memory that no such machine has."""

import numpy as np
import tensorflow as tf

print("GPUs:", tf.config.list_logical_devices("GPU"))
files = [f"{number:06d}.jpg" for number in range(200_000)]
images = np.ones((len(files), 512, 512, 3), dtype="float32")
print(images.nbytes)
