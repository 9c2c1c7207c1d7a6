"""Checks of what XLA compiles: next to the real allocator, and where it cannot."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import gpuconf
from gpuconf.basics.units import GIB, MIB
from gpuconf.errors import BackendError, MissingDependencyError
from gpuconf.simcard import CardSpec, simulated_card, xla_for_command
from tests.commands.estimate import compiled_steps
from tests.commands.estimate.op_by_op import op_by_op
from tests.programs.processes import reported, run


class Conditional(layers.Layer):  # type: ignore[misc]
    """Reads its weight in a branch."""

    def build(self, shape: Any) -> None:
        """One square weight."""
        self.weight = self.add_weight(shape=(shape[-1], shape[-1]))

    def call(self, x: Any) -> Any:
        """Its product where the sum is positive."""
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, self.weight), lambda: x)


class Unlabeled(keras.Model):  # type: ignore[misc]
    """Its own step leaves the labels aside."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1 << 16)

    def call(self, x: Any) -> Any:
        """A wide layer."""
        return self.dense(x)

    def train_step(self, data: Any) -> dict[str, Any]:
        """Of the inputs alone."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.dense(data[0]) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def check_a_compiled_step_against_the_allocator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keras's default on the simulated GPU: the estimate is within 5 % of the process's peak."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    keras.utils.clear_session()  # names layers as in a new process
    model = compiled_steps.compiled()
    made = gpuconf.estimate(model, compiled_steps.BATCH, card="8GiB")
    assert made.setting is not None
    assert made.setting.jit
    assert any("XLA for an assumed GPU" in note and "8192 MiB" in note for note in made.notes)
    assert sum(row.total_bytes for row in made.layers) == made.peak_bytes
    compiled = {row.layer for row in made.layers if row.activations_bytes}
    assert compiled & {"conv2d", "batch_normalization", "re_lu"}
    plain = gpuconf.estimate(model, compiled_steps.BATCH, jit=False)
    assert plain.peak_bytes != made.peak_bytes
    roomy = gpuconf.estimate(model, compiled_steps.BATCH, workspace_limit="256MiB")
    assert 200 * MIB < roomy.peak_bytes - made.peak_bytes < 300 * MIB
    assert not list(tmp_path.iterdir()), "nothing is left of a compiler"
    with simulated_card(CardSpec(total_bytes=8 * GIB)) as card:
        environ = card.environment(os.environ, xla=xla_for_command([sys.executable]))
        environ |= {"GPUCONF_SIMCARD_KERNELS": "skip", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
        environ["PYTHONPATH"] = str(Path(__file__).parents[3])
        environ.pop("CUDA_VISIBLE_DEVICES", None)
        command = [sys.executable, "-m", "tests.commands.estimate.compiled_steps"]
        done = run(command, tmp_path, environ=environ, timeout_s=300)
    assert done.returncode == 0, done.stderr
    assert made.peak_bytes == pytest.approx(reported(done.stdout)["peak"], rel=0.05)


def check_a_compiled_step_at_other_batches() -> None:
    """Its phases and its largest batch; no batch is traced twice, and each is compiled."""
    said: list[str] = []
    model = keras.Sequential([keras.Input((64,)), layers.Dense(256), layers.Dense(8)])
    model.compile("adam", "mse")
    made = gpuconf.estimate(model, 8, limit="4MiB", phases=True, progress=said.append)
    first, second = said[:2]
    assert first == "tracing a training step at batch 8"
    assert second.startswith("compiling that step with XLA")
    traced = [line for line in said if line.startswith("tracing")]
    assert len(traced) == len(set(traced))
    assert made.setting is not None
    assert made.setting.jit
    assert made.phases
    assert (made.largest_batch or 0) >= 8


def check_what_xla_cannot_compile_stays_op_by_op() -> None:
    """cuDNN's kernel: without a note, since Keras itself decides that; refused where requested."""
    start = [keras.Input((16, 8)), layers.LSTM(8), layers.Dense(1)]
    model = keras.Sequential(start)
    model.compile("sgd", "mse")
    made = gpuconf.estimate(model, 4)
    assert made.setting is not None
    assert not made.setting.jit
    assert not any("counted without" in note for note in made.notes)
    with pytest.raises(BackendError, match="XLA cannot compile CudnnRNNV3 for a GPU"):
        gpuconf.estimate(model, 4, jit=True)


def check_a_weight_in_a_branch_is_compiled() -> None:
    """A condition on the data that reads a variable."""
    model = keras.Sequential([keras.Input((8,)), Conditional(), layers.Dense(1)])
    model.compile("sgd", "mse")
    made = gpuconf.estimate(model, 4, jit=True)
    assert made.setting is not None
    assert made.setting.jit
    assert made.peak_bytes > made.resident_bytes


def check_labels_that_nobody_reads() -> None:
    """A compiled step takes them to the GPU; assumed ones cost nothing."""
    model = Unlabeled()
    model.compile("adam", "mse")
    x, narrow, wide = np.zeros([4, 4]), np.zeros([4, 1]), np.zeros([4, 1 << 18])
    for estimate, least, most in ((gpuconf.estimate, 3.9, 5), (op_by_op, -0.01, 0.01)):
        few, many, assumed = (
            estimate(model, 4, allow_growth=False, **given).peak_bytes / MIB
            for given in ({"data": (x, narrow)}, {"data": (x, wide)}, {"input_shape": (4,)})
        )
        assert abs(assumed - few) < 0.1
        assert least <= many - few <= most


def check_a_step_that_takes_too_long_or_has_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither XLA nor TensorFlow alone can run it then: an error, and nothing is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = keras.Sequential([keras.Input((8,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    with monkeypatch.context() as slow:
        slow.setenv("GPUCONF_STEP_TIMEOUT", "0.01s")
        with pytest.raises(BackendError, match=r"the step did not finish within 0\.01s"):
            gpuconf.estimate(model, 4)
    assert not list(tmp_path.iterdir()), "nothing is left of a child"
    for variable in ("CXX", "CC"):
        monkeypatch.setenv(variable, "no-such-compiler")
    with pytest.raises(MissingDependencyError, match="compiler"):
        gpuconf.estimate(model, 4)
