"""`MemoryUsage` in a real Keras fit on PyTorch and JAX, whose allocators are on the simulated GPU.

Their kernels are not on it: Keras computes on the processor, and uses memory of the GPU too.
"""

from __future__ import annotations

import pytest

from gpuconf.basics.units import MIB
from tests.programs.on_card import RunOnCard

pytestmark = pytest.mark.slow

_FIT = """
import sys
import numpy as np
{hold}
import keras
from gpuconf.callbacks import MemoryUsage

class Hold(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        take(64)
    def on_train_batch_end(self, batch, logs=None):
        if batch:
            free()
    def on_test_batch_begin(self, batch, logs=None):
        take(200)
    def on_test_batch_end(self, batch, logs=None):
        free()

x, y = np.zeros((8, 4), "float32"), np.zeros((8, 2), "float32")
with computing():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    take(8)  # as the weights would
    usage, hold = MemoryUsage(device="cuda:0"), Hold()
    history = model.fit(x, y, batch_size=4, epochs=2, verbose=0, validation_data=(x, y),
                        callbacks=[hold, usage])
    report(history={{k: v for k, v in history.history.items() if "gpu" in k}})
    model.evaluate(x, y, verbose=0, callbacks=[hold, usage])
    report(evaluated=usage.last, tensorflow="tensorflow" in sys.modules)
"""
_TORCH = """
import contextlib, torch
from contextlib import nullcontext as computing
held = []
def take(mib):
    held.append(torch.empty(mib << 20, dtype=torch.uint8, device="cuda"))
def free():
    del held[1:]
"""
_JAX = """
import jax, time
held = []
def take(mib):
    held.append(jax.device_put(np.zeros(mib << 20, "uint8"), jax.devices("gpu")[0]))
    held[-1].block_until_ready()
def free():
    for array in held[1:]:
        array.delete()
    del held[1:]
    until = time.monotonic() + 60  # XLA gives memory back once a thread of its own is done
    while jax.devices("gpu")[0].memory_stats()["bytes_in_use"] > 8 << 20:
        assert time.monotonic() < until
        time.sleep(0.001)
def computing():
    return jax.default_device(jax.devices("cpu")[0])
"""


@pytest.mark.parametrize(
    ("hold", "environ", "peaks", "validation_peaks"),
    [
        # Peaks are of the epoch's training and of its validation: torch resets them.
        (_TORCH, {"KERAS_BACKEND": "torch", "KERAS_TORCH_DEVICE": "cpu"}, [136, 136], [208, 208]),
        # JAX's peak is the process's; a validation has one where it took more than all before.
        (_JAX, {"KERAS_BACKEND": "jax"}, [136, 208], [208]),
    ],
    ids=["torch", "jax"],
)
def test_fit_and_evaluate(
    hold: str,
    environ: dict[str, str],
    peaks: list[int],
    validation_peaks: list[int],
    run_on_card: RunOnCard,
) -> None:
    """The figures are those of the framework's allocator; TensorFlow is not even imported."""
    frameworks = (environ["KERAS_BACKEND"],)
    done = run_on_card(_FIT.format(hold=hold), frameworks=frameworks, **environ)
    assert done.code == 0, done.log
    history = done.values["history"]
    assert history["gpu_memory_current_bytes"] == [8 * MIB, 8 * MIB]
    assert history["gpu_memory_peak_bytes"] == [peak * MIB for peak in peaks]
    assert history["val_gpu_memory_peak_bytes"] == [peak * MIB for peak in validation_peaks]
    assert all(size >= 208 * MIB for size in history["gpu_memory_pool_bytes"])
    assert done.values["evaluated"]["gpu_memory_peak_bytes"] == 208 * MIB
    assert "MemoryUsage" not in done.log
    assert not done.values["tensorflow"]
