"""Whole Keras trainings that share one simulated GPU; this mirrors no module.

Without gpuconf the second one fails: tests/acceptance, and tests/commands/cli/test_demo_command.py.
"""

from __future__ import annotations

import os
import sys

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.simcard import Card, bridge_for_command
from gpuconf.simcard.bridge import VARIABLE
from tests.programs import warm
from tests.programs.card_clients import STORY, RunClient
from tests.programs.processes import REPORT, Start, reported

pytestmark = pytest.mark.slow

_UNITS = 10000
# Waits for a line after the first step, so that two can train at the same time.
_FIT = f"""
import gpuconf.auto
import keras
import numpy as np
import tensorflow as tf

class Gate(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 0:
            print("TRAINING", flush=True)
            input()

layers = [keras.layers.Dense({_UNITS}, activation="relu"), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((2000,)), *layers])
model.compile("adam", "mse", jit_compile=False)
x, y = np.ones((4, 2000), np.float32), np.ones((4, 1), np.float32)
model.fit(x, y, batch_size=2, verbose=0, callbacks=[Gate()])
print(tf.config.experimental.get_memory_info("GPU:0")["peak"])
"""
_MIRRORED = f"""{REPORT}
import gpuconf.auto
import keras
import numpy as np
import tensorflow as tf

def losses(strategy):
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Flatten()]
    with strategy.scope():
        model = keras.Sequential([keras.Input((12, 12, 3)), *layers, keras.layers.Dense(4)])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    random = np.random.default_rng(3)
    x, y = random.random((32, 12, 12, 3), dtype=np.float32), random.integers(0, 4, 32)
    history = model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0).history["loss"]
    value = model.layers[0].kernel.value
    return history, sorted(each.device[-5:] for each in getattr(value, "values", [value]))

report(one=losses(tf.distribute.OneDeviceStrategy("GPU:0")))
report(both=losses(tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])))
"""


@pytest.fixture(scope="module")
def bridge() -> dict[str, str]:
    """The variables with which TensorFlow computes on the GPU."""
    environ = {VARIABLE: str(bridge_for_command([sys.executable]))}
    return {**environ, "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "1"}


def test_two_fits_with_half_card(card: Card, start: Start, bridge: dict[str, str]) -> None:
    """With the line on top both train at the same time, each below its part of the GPU.

    One that is killed in the middle gives its memory back, as one that ends does.
    """
    environ = card.environment({**os.environ, "GPUCONF_PROFILE": "half-card", warm.VARIABLE: "1"})
    fits = []
    for count in (1, 2):
        fits.append(start([sys.executable, "-c", _FIT], {**environ, **bridge}))
        assert fits[-1].read_line() == "TRAINING"
        assert len(card.processes()) == count
    first, second = fits
    first.write_line()
    # Weights, their gradients and Adam's two slots.
    assert _UNITS * 2000 * 4 * 4 < int(first.read_line()) < 3942 * MIB
    assert first.wait() == 0
    (left,) = card.processes()
    assert (left.pid, left.used_bytes > 3 * GIB) == (second.pid, True)
    second.kill()
    second.wait()
    assert (card.processes(), card.used_bytes()) == ((), STORY.used_bytes)


def test_mirrored_over_the_virtual_pair(
    card: Card, run_tensorflow: RunClient, bridge: dict[str, str]
) -> None:
    """Two logical devices of one GPU, each with its copy of the weights, train as one does."""
    done = run_tensorflow(card, _MIRRORED, **bridge, GPUCONF_PROFILE="virtual-pair")
    (of_one, one), (of_both, both) = reported(done.stdout).values()
    assert (one, both) == (["GPU:0"], ["GPU:0", "GPU:1"])
    assert of_both == pytest.approx(of_one, rel=1e-5)
    assert of_both[-1] < of_both[0]
