"""Checks of estimates for models of all kinds, run by ``test_in_tensorflow``."""

from __future__ import annotations

import math
import re
import runpy
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from keras import layers

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate import MemoryEstimate
from tests.commands.estimate.miniatures import Coder, Rivals, Wide, attention, convnet, words
from tests.commands.estimate.op_by_op import op_by_op, refused

KIB = 1024
BATCH = 8


def bytes_of(variables: Any) -> int:
    """Bytes of variables, each counted once."""
    found = {id(each): each for each in variables}
    sizes = [math.prod(each.shape) * tf.as_dtype(each.dtype).size for each in found.values()]
    return int(sum(sizes))


def state_of(model: Any) -> int:
    """Bytes of all that stays of a model that was trained."""
    of_metrics = [each for metric in model.metrics for each in metric.variables]
    return bytes_of([*model.variables, *model.optimizer.variables, *of_metrics])


def row(made: MemoryEstimate, layer: str) -> Any:
    """The one row of a layer."""
    (found,) = [each for each in made.layers if each.layer == layer]
    return found


def check_what_stays_is_what_a_training_leaves() -> None:
    """Resident bytes are those of all variables after a real step, before it and after it."""
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    for make, optimizer in (
        (convnet, keras.optimizers.Adam(amsgrad=True, use_ema=True)),
        (words, keras.optimizers.Adafactor()),
        (attention, keras.optimizers.Adam(schedule, gradient_accumulation_steps=2)),
    ):
        model = make()
        metrics = ["accuracy", keras.metrics.SparseCategoricalCrossentropy()]
        model.compile(optimizer, "sparse_categorical_crossentropy", metrics=metrics)
        before = op_by_op(model, BATCH)
        inputs = np.zeros((BATCH, *model.inputs[0].shape[1:]), model.inputs[0].dtype)
        model.train_on_batch(inputs, np.zeros(BATCH, "int32"))
        after = op_by_op(model, BATCH)
        assert before.resident_bytes == after.resident_bytes == state_of(model)
        assert before.peak_bytes == pytest.approx(after.peak_bytes, rel=1e-3, abs=4 * KIB)
        inference = op_by_op(model, BATCH, training=False)
        assert inference.resident_bytes == bytes_of([*model.variables, *_of_metrics(model)])


def _of_metrics(model: Any) -> list[Any]:
    return [each for metric in model.metrics for each in metric.variables]


def check_mixed_precision_keeps_what_scales_the_loss() -> None:
    """Variables of the optimizer that scales, around the one that was requested."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = keras.Sequential([keras.Input((8,)), layers.Dense(4)])
        model.compile("adam", "mse")
    finally:
        keras.config.set_dtype_policy("float32")
    made = op_by_op(model, BATCH)
    assert made.setting is not None
    assert (made.setting.optimizer, made.setting.precision) == ("Adam", "mixed_float16")
    model.train_on_batch(np.zeros((BATCH, 8)), np.zeros((BATCH, 4)))
    assert made.resident_bytes == op_by_op(model, BATCH).resident_bytes == state_of(model)


def check_more_samples_need_more() -> None:
    """Estimates rise with the batch, and the formula is the peak at other batches, nearly."""
    for model in (convnet(), words(), attention()):
        model.compile("sgd", "sparse_categorical_crossentropy")
        made = [op_by_op(model, batch, phases=batch == 16) for batch in (1, 16, 256)]
        peaks = [each.peak_bytes for each in made]
        assert peaks == sorted(peaks)
        assert len({each.resident_bytes for each in made}) == 1
        (phase,) = made[1].phases
        of_a_step = made[1].peak_bytes - made[1].building_bytes - made[1].first_step_bytes
        said = phase.base_bytes + phase.per_sample_bytes * 16 + made[1].rounding_bytes
        assert made[1].resident_bytes + said == pytest.approx(of_a_step, rel=0.1)


def check_a_subclassed_model() -> None:
    """Called before, it is as it was; never called, it says what it needs, or is told."""
    model = Wide()
    with refused("never been called", "input_shape="):
        op_by_op(model, BATCH)
    assert not model.built
    told = op_by_op(Wide(), BATCH, input_shape=(8,))
    spec = tf.TensorSpec([None, 8], tf.float32), tf.TensorSpec([None, 4], tf.float32)
    assert op_by_op(Wide(), BATCH, data=spec).peak_bytes == pytest.approx(told.peak_bytes, abs=KIB)
    model(np.zeros((2, 8), "float32"))
    nodes = len(model._inbound_nodes)
    called = op_by_op(model, BATCH)
    assert called.peak_bytes == pytest.approx(told.peak_bytes, abs=KIB)
    assert called.resident_bytes == told.resident_bytes
    assert len(model._inbound_nodes) == nodes
    assert row(called, "first").parameters_bytes == (8 * 16 + 16) * 4


def check_a_step_of_its_own() -> None:
    """Inputs alone, as ``fit(x)`` gives them: with data, and without as far as can be told."""
    model = Coder()
    model.compile("adam")
    made = op_by_op(model, BATCH, input_shape=(8,))
    assert made.peak_bytes == op_by_op(model, BATCH, data=np.zeros((1, 8))).peak_bytes
    assert made.setting is not None
    assert made.setting.loss is None
    model.fit(np.zeros((BATCH, 8)), verbose=0)
    assert made.resident_bytes == state_of(model)


def check_two_models_that_train_each_other() -> None:
    """Both and their optimizers are counted; the one that nobody uses is not."""
    model = Rivals()
    model.compile(keras.optimizers.Adam(), keras.optimizers.Adam())
    data = np.zeros((BATCH, 16), "float32")
    made = op_by_op(model, BATCH, data=data)
    model.fit(data, verbose=0)
    of_both = [*model.of_maker.variables, *model.of_judge.variables]
    assert made.resident_bytes == bytes_of([*model.variables, *of_both, *_of_metrics(model)])
    assert row(made, "maker/" + model.maker.layers[0].name).parameters_bytes == (4 * 16 + 16) * 4


def check_several_inputs_and_outputs() -> None:
    """As lists and as dicts, with a loss for each, and with one for all."""
    first, second = keras.Input((8,), name="first"), keras.Input((6,), name="second")
    joined = layers.Dense(3, name="one")(layers.Concatenate()([first, second]))
    classes = layers.Dense(5, name="two", activation="softmax")(first)
    losses = {"one": "mse", "two": "sparse_categorical_crossentropy"}
    by_name = {"first": first, "second": second}
    models = [
        (keras.Model([first, second], [joined, classes]), list(losses.values())),
        (keras.Model(by_name, {"one": joined, "two": classes}), losses),
        (keras.Model([first, second], [joined, classes]), losses),
    ]
    peaks, peaks_of_one_loss = set(), set()
    for model, loss in models:
        model.compile("adam", loss)
        peaks.add(op_by_op(model, BATCH).peak_bytes)
        peaks_of_one_loss.add(op_by_op(model, BATCH, loss="mse").peak_bytes)
        model.compile("adam", "mse")
        peaks_of_one_loss.add(op_by_op(model, BATCH).peak_bytes)
    for found in (peaks, peaks_of_one_loss):
        assert max(found) - min(found) <= KIB
    with refused("2 inputs (first, second)"):
        op_by_op(models[0][0], BATCH, input_shape=(8,))


def check_open_dimensions() -> None:
    """Pictures of any size: the size is requested, and the right one is taken."""
    model = keras.Sequential([keras.Input((None, None, 3)), layers.Conv2D(4, 3)])
    with refused("its size must be known", "input_shape="):
        op_by_op(model, BATCH)
    with refused("(None, None, None, 3)", "(8, 8, 1)"):
        op_by_op(model, BATCH, input_shape=(8, 8, 1))
    made = [
        op_by_op(model, BATCH, input_shape=(side, side, 3), training=False) for side in (64, 128)
    ]
    small, large = (each.peak_bytes - each.first_step_bytes for each in made)
    assert 3.5 < large / small < 5
    assert model.input_shape == (None, None, None, 3)


def check_a_batch_that_the_model_fixes() -> None:
    """Another one is refused; its own has no formula, and is the largest or does not fit."""
    inputs = keras.Input((8,), batch_size=4)
    model = keras.Model(inputs, layers.Dense(4)(inputs))
    with refused("built for batch size 4", "batch_size=4"):
        op_by_op(model, 8)
    made = op_by_op(model, 4, limit="1MiB", phases=True)
    assert (made.largest_batch, made.fits, made.phases) == (4, True, ())
    assert op_by_op(model, 4, limit=1024).largest_batch == 0


def check_a_model_that_cannot_be_built() -> None:
    """Its own words, and what to give."""

    class Broken(keras.Model):
        def call(self, _inputs: Any) -> Any:
            raise ValueError("of the model itself")

    with refused("cannot be built for inputs", "of the model itself", "Broken"):
        op_by_op(Broken(), BATCH, input_shape=(8,))


def check_where_building_takes_the_most_it_says_so() -> None:
    """A large weight's random values, next to the weight: more than a step of one sample."""
    model = keras.Sequential([keras.Input((1024,)), layers.Dense(4096, use_bias=False)])
    made = op_by_op(model, 1, training=False)
    assert made.peak_bytes >= 2 * 1024 * 4096 * 4
    assert any("while the model is built" in note for note in made.notes)
    assert made.building_bytes > 0
    assert made.rounding_bytes < 1024 * 4096
    trained = op_by_op(model, 1, optimizer="adam", loss="mse")
    assert not any("while the model is built" in note for note in trained.notes)


def check_an_eager_step_is_said_to_be_counted_as_a_graph() -> None:
    """It takes more when it runs operation by operation from Python."""
    model = keras.Sequential([keras.Input((8,)), layers.Dense(4)])
    for is_eager in (False, True):
        model.compile("sgd", "mse", run_eagerly=is_eager)
        made = op_by_op(model, 4)
        assert any("run_eagerly=True" in note for note in made.notes) == is_eager
        assert model.run_eagerly == is_eager


def check_keras_2() -> None:
    """``tf_keras``: functional, sequential, subclassed, with an optimizer of old."""
    of = tf_keras.layers

    class Deep(tf_keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = of.Dense(4, name="dense")

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

    inputs = tf_keras.Input((8,))
    functional = tf_keras.Model(inputs, of.Dense(4, name="dense")(inputs))
    sequential = tf_keras.Sequential([tf_keras.Input((8,)), of.Dense(4, name="dense")])
    subclassed = Deep()
    subclassed.build((None, 8))
    legacy = tf_keras.optimizers.legacy.Adam
    for optimizer in (tf_keras.optimizers.Adam, legacy):
        found = set()
        for model in (functional, sequential, subclassed):
            model.compile(optimizer(), "mse")
            made = op_by_op(model, BATCH)
            assert made.setting is not None
            assert made.setting.framework.count("tf_keras") == 1
            assert row(made, "dense").optimizer_state_bytes >= 2 * (8 * 4 + 4) * 4
            found.add((made.peak_bytes, made.resident_bytes))
        assert len(found) == 1
    with refused("fixed when its layers are created"):
        op_by_op(functional, BATCH, mixed_precision=True)


def check_the_worked_example_of_the_page() -> None:
    """docs/reference/estimate.md shows what its network needs without XLA: heading and fullest row.

    The peak depends by a megabyte on what the process has traced before.
    """
    root = Path(__file__).parents[3]
    keras.utils.clear_session()  # so that its layers are named as in a fresh process
    network = runpy.run_path(str(root / "docs" / "examples" / "flow_network.py"))["make"]()
    made = op_by_op(network, 2, limit="5.5GiB", workspace_limit="256MiB")
    page = (root / "docs" / "reference" / "estimate.md").read_text("utf-8")
    _, _, shown = page.partition("--workspace-limit 256MiB --no-jit\n")
    peak, stays = re.findall(r"([\d.]+) MiB", shown.partition("\n")[0])[:2]
    assert made.peak_bytes / MIB == pytest.approx(float(peak), rel=1e-3)
    assert made.resident_bytes / MIB == pytest.approx(float(stays), abs=0.05)
    assert f"{row(made, 'conv2d_7').total_bytes / MIB:.1f}\n" in shown
    assert made.largest_batch == 1
