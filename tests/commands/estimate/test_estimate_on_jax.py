"""Estimates of Keras on JAX: XLA's own figures, against the peaks of JAX's real allocator."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.basics.units import GIB
from tests.commands.cli.commands import run_commands
from tests.frameworks.installed import folder_of
from tests.machine.cards import standin
from tests.programs.inside_tensorflow import PLAIN
from tests.programs.on_card import RunOnCard
from tests.programs.processes import Nvml

pytestmark = pytest.mark.slow(seconds=20)

# What the simulated GPU has no kernels for: trying algorithms, and graphs of launches.
_XLA_FLAGS = "--xla_gpu_autotune_level=0 --xla_gpu_enable_command_buffer="
_MODELS = """
import keras
from keras import layers

def perceptron():
    model = keras.Sequential([keras.Input((784,))])
    for _ in range(3):
        model.add(layers.Dense(1024, activation="relu"))
        model.add(layers.Dropout(0.2))
    model.add(layers.Dense(10))
    return model

def transformer():
    tokens = keras.Input((128,), dtype="int32")
    x = layers.Embedding(4000, 128)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 32)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(128)(layers.Dense(512, "gelu")(x)))
    return keras.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))

def convolutions():
    return keras.Sequential([keras.Input((16, 16, 3)), layers.Conv2D(8, 3), layers.Flatten(),
                             layers.Dense(2)])
"""
_MEASURING = (
    _MODELS
    + """
import faulthandler, sys
faulthandler.dump_traceback_later(200, exit=True)
import jax, numpy as np
import gpuconf

def estimated(model, batch, **options):
    return gpuconf.estimate(model, batch, allow_growth=False, **options)

device, training = jax.devices()[0], []
# The transformer takes more than the perceptron: JAX cannot reset its peak.
for make, batch, dtype in ((perceptron, 2048, "float32"), (transformer, 64, "int32")):
    model = make()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(True), metrics=["accuracy"])
    weights = [weight.copy() for weight in model.get_weights()]
    before = len(model.variables), model.optimizer.built
    figures = estimated(model, batch)
    assert before == (len(model.variables), model.optimizer.built), "the model is as it was"
    assert all(map(np.array_equal, weights, model.get_weights()))
    in_use = device.memory_stats()["bytes_in_use"] - sum(map(np.size, weights)) * 4
    samples = np.zeros((3 * batch, *model.input_shape[1:]), dtype)
    model.fit(samples, np.zeros(3 * batch, "int32"), batch_size=batch, verbose=0)
    training.append((figures.peak_bytes, device.memory_stats()["peak_bytes_in_use"] - in_use))
report(jax=jax.__version__, training=training, notes=figures.notes,
       setting=figures.setting._asdict())

model.optimizer = None
inference = estimated(model, 64, training=False)
report(inference=inference.peak_bytes, imported="tensorflow" in sys.modules)
try:
    model.compile("sgd", "mse", run_eagerly=True)
    gpuconf.estimate(model)
except gpuconf.BackendError as error:
    report(eager=error.message)
"""
)


@pytest.mark.nightly
def test_peaks_are_those_of_the_allocator(run_on_card: RunOnCard) -> None:
    """Within 1 % where a transformer trains; for a small network from 0.1 % below to 5 % above."""
    done = run_on_card(
        _MEASURING,
        frameworks=("jax",),
        KERAS_BACKEND="jax",
        XLA_FLAGS=_XLA_FLAGS,
        GPUCONF_SIMCARD_KERNELS="skip",
    )
    assert done.code == 0, done.log
    (small, of_small), (estimated, measured) = done.values["training"]
    assert 0.999 * of_small <= small <= 1.05 * of_small
    assert estimated == pytest.approx(measured, rel=0.01)
    assert done.values["inference"] < 0.5 * estimated
    assert done.values["notes"] == [
        "compiled by XLA for this machine's GPU, compute capability 8.6 with 11264 MiB; "
        "nothing was run"
    ]
    assert done.values["setting"]["backend"] == "jax"
    assert done.values["setting"]["framework"].startswith(f"jax {done.values['jax']}, keras 3.")
    assert not done.values["imported"], "TensorFlow is not needed"
    assert "runs operation by operation on JAX" in done.values["eager"]


def _estimates(folder: Path, *commands: str, jax: bool = False, **environ: str) -> list[str]:
    """What each command prints, its exit code first: all in one process."""
    (folder / "models.py").write_text(_MODELS, encoding="utf-8")
    path = str(folder_of("jax")) if jax else ""
    given = {**PLAIN, "KERAS_BACKEND": "jax", "PYTHONPATH": path, **environ}
    done = run_commands(
        folder, *(["estimate", *words.split()] for words in commands), environ=given
    )
    return [f"{each.code} {each.out}{each.err}" for each in done]


def test_command(tmp_path: Path, nvml: Nvml) -> None:
    """The largest batch, what is not counted, nothing else on stderr.

    On a GPU newer than XLA the process does not end: the nearest capability is compiled for.
    """
    new = standin.Card(standin.uuid(0), total=8 * GIB, reserved=0, major=11, minor=0)
    machine = nvml(standin.Machine((new,)))
    words = "models:convolutions --batch-size 512 --limit 64MiB"
    (said,) = _estimates(tmp_path, words, jax=True, **machine)
    assert said.startswith("0 batch 512: ")
    assert "; the largest batch that fits in 64 MiB is " in said
    assert "float32, compiled by XLA; jax 0." in said
    assert "64.0 MiB  JAX may use (--limit)" in said
    assert "without a limit, JAX reserves 75 % of the GPU" in said
    assert "XLA for this machine's GPU, compute capability 11.0 with 8192 MiB" in said
    assert "compiled for compute capability 10.3, the nearest that gpuconf knows" in said
    assert "a workspace that cuDNN chooses on the GPU: it is not included here" in said
    assert "absl" not in said


def test_refusals(tmp_path: Path) -> None:
    """One error each: options of TensorFlow's, a JAX without CUDA, PyTorch."""
    options = ("--plot memory.svg", "--workspace-limit 1GiB", "--no-jit", "")
    target = "models:transformer"
    *refusals, without_cuda = _estimates(tmp_path, *(f"{target} {each}" for each in options))
    for said, option in zip(refusals, options, strict=False):
        name = option.split()[0]
        assert said.startswith(f"2 gpuconf: error: {name} requires KERAS_BACKEND=tensorflow")
    assert "cannot compile for CUDA here" in without_cuda
    assert 'hint: pip install "jax[cuda12]" --upgrade' in without_cuda
    (said,) = _estimates(tmp_path, target, KERAS_BACKEND="torch")
    assert "Keras runs on torch here" in said
    assert f"hint: KERAS_BACKEND=jax gpuconf estimate {target}" in said
    assert said.count("\n") == 2
