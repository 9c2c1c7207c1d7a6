"""Training that starts its evaluator as a second process on the same GPU."""

import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf

print("devices:", [gpu.name for gpu in tf.config.list_logical_devices("GPU")])
evaluator = subprocess.Popen(
    [sys.executable, "evaluate.py", *sys.argv[1:]],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
)
print("evaluator:", evaluator.stdout.readline().decode().strip())

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [keras.layers.Input((1024,)), keras.layers.Dense(20480, "relu"), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(np.ones((64, 1024), "float32"), np.ones((64, 1), "float32"), epochs=2, verbose=2)
evaluator.communicate()
print("finished")
