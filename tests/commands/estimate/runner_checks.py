"""Checks of steps that run in a process of their own, run by ``test_in_tensorflow``."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.compile_target import CompileTarget
from gpuconf.commands.estimate.runner.exporting import export
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.commands.estimate.runner.without_numbers import decide
from gpuconf.errors import BackendError
from gpuconf.support.keras_api import graphs
from tests.commands.estimate.op_by_op import alone, op_by_op

BATCH = 4


@contextmanager
def fails(*words: str) -> Iterator[None]:
    """A BackendError of one line with a hint, in which these words are."""
    with pytest.raises(BackendError) as caught:
        yield
    assert "\n" not in caught.value.message
    for word in words:
        assert word in f"{caught.value.message}; {caught.value.hint}"


def dense() -> Any:
    """A small model."""
    model = keras.Sequential([keras.Input((8,)), layers.Dense(4)])
    model.compile("sgd", "mse")
    return model


class Applied(layers.Layer):  # type: ignore[misc]
    """A layer that calls a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def call(self, x: Any) -> Any:
        """The function's result, of the input's shape."""
        return tf.ensure_shape(self._function(x), x.shape)


def applied(function: Any) -> Any:
    """A model with such a layer."""
    model = keras.Sequential([keras.Input((8,)), Applied(function), layers.Dense(4)])
    model.compile("sgd", "mse")
    return model


def branches_taken(graph: Any) -> Counter[Any]:
    """The values of the constants that decide conditions of a graph and its functions."""
    definition = graph.as_graph_def()
    decide(definition)
    lists = [definition.node, *(each.node_def for each in definition.library.function)]
    found: Counter[Any] = Counter()
    for nodes in lists:
        by_name = {node.name: node for node in nodes}
        for node in nodes:
            if node.op in ("If", "StatelessIf", "Case", "StatelessCase"):
                made = by_name[node.input[0].partition(":")[0]]
                found[tf.make_ndarray(made.attr["value"].tensor).item()] += 1
    with tf.Graph().as_default():
        tf.graph_util.import_graph_def(definition, name="")
    return found


def check_each_condition_takes_its_largest_branch() -> None:
    """Counted with the functions that a branch calls, in the graph and in its functions."""

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def long(x: Any) -> Any:
        return tf.sin(tf.cos(tf.exp(tf.tanh(x))))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def inner(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(tf.cos(x)), lambda: x)

    def step(x: Any) -> Any:
        index = tf.cast(x[0], tf.int32)
        small = tf.cond(x[0] > 0, lambda: tf.exp(tf.sin(x)), lambda: long(x))
        cases = [lambda: x, lambda: tf.sin(x), lambda: tf.sin(tf.exp(tf.cos(x))), lambda: x]
        return small + tf.switch_case(index, cases) + inner(x)

    function = tf.function(step, autograph=False)
    graph = function.get_concrete_function(tf.TensorSpec([8])).graph
    assert branches_taken(graph) == {False: 1, 2: 1, True: 1}


def check_results_that_numbers_decide() -> None:
    """Ids are all different, a masked result is empty, and a loop with a counter is whole."""
    wide = MIB // 4

    def sums(x: Any) -> Any:
        ids, places = tf.unique(tf.cast(x[:, 0], tf.int64))
        return tf.math.unsorted_segment_sum(tf.repeat(x, wide // 8, 1), places, tf.size(ids))

    peaks = {}
    for name, function in {
        "nothing": lambda x: x,
        "ids": lambda x: x + tf.reduce_sum(sums(x)),
        "mask": lambda x: x + tf.reduce_sum(tf.ones([tf.shape(tf.where(x > 0))[0], wide])),
        "loop": lambda x: x + tf.reduce_sum(tf.map_fn(lambda row: tf.repeat(row, wide // 8), x)),
    }.items():
        peaks[name] = op_by_op(applied(function), BATCH, allow_growth=False).peak_bytes
    assert peaks["ids"] - peaks["nothing"] > 2 * BATCH * MIB - MIB
    assert peaks["mask"] - peaks["nothing"] < MIB
    assert peaks["loop"] - peaks["nothing"] >= BATCH * MIB


def check_a_step_that_scales_its_loss_is_updated() -> None:
    """Without numbers the scaled gradients are not finite; Adam's two slots are counted anyway."""
    model = keras.Sequential([keras.Input((1024,)), layers.Dense(1024, name="scaled")])
    made = op_by_op(model, BATCH, optimizer="adam", loss="mse", mixed_precision="float16")
    rows = {row.layer: row for row in made.layers}
    assert rows["scaled"].optimizer_state_bytes == 2 * 4 * (MIB + 1024)
    assert {moment.part for moment in made.timeline} >= {"forward", "backward", "update"}
    # Each slot gets memory of its own only when it is written.
    assert made.peak_bytes >= 3 * 4 * MIB + 4 * MIB


def check_steps_that_cannot_run_alone() -> None:
    """Python in the graph, lookup tables, and an operation that fails: one error each."""
    with fails("this step cannot run on its own", "gpuconf rehearse -- python train.py"):
        op_by_op(applied(lambda x: tf.numpy_function(lambda y: y, [x], tf.float32)), BATCH)
    keys = tf.lookup.KeyValueTensorInitializer(tf.range(4), tf.range(4))
    table = tf.lookup.StaticHashTable(keys, 0)
    looked_up = applied(lambda x: tf.cast(table.lookup(tf.cast(x, tf.int32)), tf.float32))
    with fails("lookup table", "gpuconf rehearse"):
        op_by_op(looked_up, BATCH)


def check_an_open_shape_cannot_run(tmp_path: Path) -> None:
    """The error names the tensor and how to give its shape."""
    graph = graphs.traced("step", tf.exp, tf.TensorSpec([None, 8]), is_compiled=False)
    with fails("known shapes", "(None, 8)", "--input-shape"):
        export(graph, (), tmp_path, is_compiled=False, counts_unread=False)


def check_a_step_that_takes_too_long_or_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is up, or its process is ended: an error each, and nothing is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with monkeypatch.context() as slow:
        slow.setenv("GPUCONF_STEP_TIMEOUT", "0.01s")
        with fails("did not finish within 0.01s", "GPUCONF_STEP_TIMEOUT=1h"):
            alone(dense(), BATCH)
    assert not list(tmp_path.iterdir())
    graph = graphs.traced("step", tf.exp, tf.TensorSpec([8]), is_compiled=False)
    with StepRunner(CompileTarget()) as runner:
        child = runner.start(is_compiled=False)
        os.kill(child.pid, signal.SIGSEGV)
        with fails("the process for the step did not start", "SIGSEGV", "gpuconf rehearse"):
            runner.run(graph, (), is_compiled=False)
    with StepRunner(CompileTarget()) as runner:
        assert runner.run(graph, (), is_compiled=False).peaks.step_bytes
        child = runner.start(is_compiled=False)
        os.kill(child.pid, signal.SIGKILL)
        with fails(
            "cannot run on its own",
            "terminated by SIGKILL; this machine may have run out of memory",
        ):
            runner.run(graph, (), is_compiled=False)
        assert runner.run(graph, (), is_compiled=False).peaks.step_bytes, "in a new process"
    assert not list(tmp_path.iterdir())


def check_a_workspace_is_that_of_convolutions() -> None:
    """It raises the peak of a convolutional network by its size, and that of no other model."""
    convnet = keras.Sequential([keras.Input((32, 32, 3)), layers.Conv2D(8, 3), layers.Flatten()])
    for model, least, most in ((convnet, 60, 66), (dense(), 0, 0)):
        given = {"optimizer": "sgd", "loss": "mse", "allow_growth": False}
        without = op_by_op(model, BATCH, **given)
        roomy = op_by_op(model, BATCH, **given, workspace_limit="64MiB")
        more = (roomy.peak_bytes - without.peak_bytes) / MIB
        assert least <= more <= most
        assert (roomy.workspace_bytes >= 64 * MIB) == bool(least)
        assert any("without cuDNN workspace" in note for note in without.notes) == bool(least)
        assert not any("cuDNN workspace" in note for note in roomy.notes)


def check_a_batch_that_no_gpu_holds() -> None:
    """Without growth the GPU's memory is taken at once, and a step beyond it does not run."""
    model = dense()
    with fails("the step needs more than the GPU's 16384 MiB", "--batch-size"):
        op_by_op(model, 1 << 30, allow_growth=False, card="16GiB")
