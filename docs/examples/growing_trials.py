"""Twenty trials of a growing model, and the GPU memory that is still in use after each.

python growing_trials.py             # all in one process
python growing_trials.py isolated    # each in its own
"""

import sys

import gpuconf.auto  # isort: skip
import numpy as np
import pynvml

import gpuconf


def train(units):
    """Train one model, delete it, and return its loss."""
    import gc

    import keras

    x = np.ones((8, 4096), "float32")
    layers = [keras.Input((4096,)), keras.layers.Dense(units), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse", jit_compile=False)
    loss = model.fit(x, x[:, 0], verbose=0).history["loss"][-1]
    del model
    keras.backend.clear_session()
    gc.collect()
    return loss


pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
trial = gpuconf.isolated(train) if "isolated" in sys.argv else train
for number in range(1, 21):
    units = 512 * number
    trial(units)
    used = pynvml.nvmlDeviceGetMemoryInfo(gpu).used // 2**20
    print(f"trial {number:2}, {units:5} units: {used} MiB in use afterwards", flush=True)
