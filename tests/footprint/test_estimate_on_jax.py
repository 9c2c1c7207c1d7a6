"""Estimates of Keras on JAX: XLA's own figures, against the peaks of JAX's real allocator."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpuconf.units import GIB
from tests.frameworks.installed import folder_of
from tests.hardware import standin
from tests.programs.inside_tensorflow import PLAIN
from tests.programs.on_card import RunOnCard
from tests.programs.processes import Nvml, run

pytestmark = pytest.mark.slow

# What the simulated card has no kernels for: trying algorithms, and graphs of launches.
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
    for _ in range(2):
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

device = jax.devices()[0]
peak = lambda: device.memory_stats()["peak_bytes_in_use"]
found = []
# Each takes more than the one before it: JAX cannot set a peak back.
for make, batch, dtype in ((perceptron, 2048, "float32"), (transformer, 64, "int32")):
    model = make()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(True), metrics=["accuracy"])
    weights = [weight.copy() for weight in model.get_weights()]
    before = len(model.variables), model.optimizer.built
    figures = estimated(model, batch)
    assert before == (len(model.variables), model.optimizer.built), "the model is as it was"
    assert all(map(np.array_equal, weights, model.get_weights()))
    data = np.zeros((3 * batch, *model.input_shape[1:]), dtype)
    in_use = device.memory_stats()["bytes_in_use"] - sum(map(np.size, weights)) * 4
    model.fit(data, np.zeros(3 * batch, "int32"), batch_size=batch, verbose=0)
    found.append((figures.peak_bytes, peak() - in_use))
report(training=found, notes=figures.notes, setting=figures.setting._asdict())

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


def test_peaks_are_those_of_the_allocator(run_on_card: RunOnCard) -> None:
    """Within 1 % where a transformer trains, and 5 % above for a small network."""
    done = run_on_card(
        _MEASURING,
        frameworks=("jax",),
        KERAS_BACKEND="jax",
        XLA_FLAGS=_XLA_FLAGS,
        GPUCONF_SIMCARD_KERNELS="skip",
    )
    assert done.code == 0, done.log
    (small, of_small), (large, of_large) = done.values["training"]
    assert of_small <= small <= 1.05 * of_small
    assert abs(large - of_large) <= 0.01 * of_large
    assert done.values["inference"] < 0.5 * large
    assert done.values["notes"] == [
        "compiled by XLA for this machine's GPU, compute capability 8.6 with 11264 MiB; "
        "nothing was run"
    ]
    assert done.values["setting"]["backend"] == "jax"
    assert done.values["setting"]["framework"].startswith("jax 0.10.2, keras 3.")
    assert not done.values["imported"], "TensorFlow is not needed"
    assert "runs operation by operation on JAX" in done.values["eager"]


def _estimate(
    folder: Path, *arguments: str, backend: str, framework: str | None = None, **more: str
) -> str:
    """What the command prints, its exit code first."""
    (folder / "models.py").write_text(_MODELS, encoding="utf-8")
    paths = [str(folder_of(framework))] if framework is not None else []
    environ = {**PLAIN, "KERAS_BACKEND": backend, "PYTHONPATH": os.pathsep.join(paths), **more}
    command = [sys.executable, "-m", "gpuconf", "estimate", *arguments]
    done = run(command, folder, environ=environ, timeout_s=300)
    return f"{done.returncode} {done.stdout}{done.stderr}"


def test_command(tmp_path: Path) -> None:
    """Without a GPU or a card: the largest batch, what is not counted, nothing else on stderr."""
    target = ("models:convolutions", "--batch-size", "512", "--limit", "64MiB")
    said = _estimate(tmp_path, *target, backend="jax", framework="jax")
    assert said.startswith("0 batch 512: ")
    assert "; the largest batch that fits 64 MiB is " in said
    assert "float32, compiled by XLA; jax 0.10.2" in said
    assert "64.0 MiB  JAX may use (--limit)" in said
    assert "without a limit JAX takes 75 % of the card" in said
    assert "compute capability 8.6 with 24576 MiB; nothing was run" in said
    assert "a workspace that cuDNN chooses on the GPU: it is not in these figures" in said
    assert "absl" not in said


def test_a_gpu_newer_than_xla(tmp_path: Path, nvml: Nvml) -> None:
    """The process does not end: the nearest capability is compiled for, which a note says."""
    new = standin.Card(standin.uuid(0), total=8 * GIB, reserved=0, major=11, minor=0)
    machine = nvml(standin.Machine((new,)))
    said = _estimate(tmp_path, "models:perceptron", backend="jax", framework="jax", **machine)
    assert "XLA for this machine's GPU, compute capability 11.0 with 8192 MiB" in said
    assert "compiled as for compute capability 10.3, the nearest that gpuconf knows" in said


def test_refusals(tmp_path: Path) -> None:
    """One error each: options of TensorFlow's, a JAX without CUDA, PyTorch."""
    for option in (
        ["--probe"],
        ["--plot", "memory.svg"],
        ["--workspace-limit", "1GiB"],
        ["--no-jit"],
    ):
        said = _estimate(tmp_path, "models:perceptron", *option, backend="jax")
        assert said.startswith(f"2 gpuconf: error: {option[0]} is for KERAS_BACKEND=tensorflow")
    said = _estimate(tmp_path, "models:perceptron", backend="jax")
    assert "cannot compile for CUDA here" in said
    assert 'hint: pip install "jax[cuda12]" --upgrade' in said
    said = _estimate(tmp_path, "models:perceptron", backend="torch")
    assert "Keras computes with torch here" in said
    assert "hint: KERAS_BACKEND=jax gpuconf estimate models:perceptron" in said
    assert said.count("\n") == 2
