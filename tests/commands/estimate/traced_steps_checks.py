"""Checks of how often one estimate runs a model's code, run by ``test_in_tensorflow``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from gpuconf.commands.estimate.keras_models.preparing import EstimateChoice
from gpuconf.commands.estimate.step import Step
from gpuconf.commands.estimate.subject import Subject
from gpuconf.commands.estimate.traced_steps import TracedSteps
from gpuconf.support.keras_api.families import family_of
from tests.commands.estimate.op_by_op import op_by_op

BATCH = 16


class Counting(layers.Layer):  # type: ignore[misc]
    """A layer that notes the batch sizes that it is called with, None for symbolic calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int | None] = []

    def call(self, inputs: Any) -> Any:
        """What it is given."""
        self.calls.append(inputs.shape[0])
        return inputs


def counted() -> tuple[Any, Counting]:
    """A model, compiled, and its layer that counts from now on."""
    counting = Counting()
    model = keras.Sequential([keras.Input((64,)), layers.Dense(256), counting, layers.Dense(8)])
    model.compile("adam", "mse")
    counting.calls.clear()
    return model, counting


def check_no_batch_size_is_traced_twice() -> None:
    """Phases, the largest batch and advice share their traces; each is announced."""
    model, counting = counted()
    said: list[str] = []
    found = op_by_op(model, BATCH, limit="900KiB", phases=True, advise=True, progress=said.append)
    assert found.phases
    assert found.largest_batch
    tracing = [line for line in said if line.startswith("tracing a training step of batch ")]
    assert len(tracing) == len(set(tracing))
    assert tracing[0].endswith(f"batch {BATCH}")
    # Other changes are traced at the batch size requested: each is a model or choice of its own.
    changes = [line for line in said if line.startswith("what would save memory: ")]
    others = Counter(counting.calls)
    assert others.pop(BATCH) <= 1 + len(changes)
    assert all(times == 1 for times in others.values())


def check_advice_only_where_it_does_not_fit() -> None:
    """With ``advise=None`` one call does both, and where it fits nothing more is traced.

    An estimate without a limit is one trace.
    """
    model, counting = counted()
    op_by_op(model, BATCH)
    assert counting.calls == [BATCH]
    counting.calls.clear()
    fits = op_by_op(model, BATCH, limit="1GiB", advise=None)
    assert not fits.advice
    assert max(Counter(counting.calls).values()) == 1
    small = op_by_op(model, BATCH, limit="250KiB", advise=None)
    assert small.fits is False
    assert small.advice


class PairsOfSamples(layers.Layer):  # type: ignore[misc]
    """A layer whose memory grows with the square of the batch."""

    def call(self, inputs: Any) -> Any:
        """All products of two samples go into the result, as their mean."""
        products = tf.reshape(tf.matmul(inputs, inputs, transpose_b=True), [-1])
        return inputs + tf.reduce_mean(tf.nn.relu(products))


class AddedZeros(layers.Layer):  # type: ignore[misc]
    """A layer that makes zeros for the batch: TensorFlow's constant where they are below 1000."""

    def call(self, inputs: Any) -> Any:
        """What it is given."""
        return inputs + tf.zeros_like(inputs)


def steps_of(*inner: Any, **options: Any) -> tuple[TracedSteps, Counting]:
    """The steps of a convolutional network with these layers at its end, and its counting layer."""
    counting, inputs = Counting(), keras.Input((12, 12, 3))
    hidden = layers.BatchNormalization()(layers.Conv2D(8, 3)(inputs))
    hidden = counting(layers.Dropout(0.3)(layers.MaxPooling2D()(hidden)))
    hidden = layers.Dense(8)(layers.Flatten()(hidden))
    for each in inner:
        hidden = each(hidden)
    model = keras.Model(inputs, hidden)
    model.compile("adam", "mse")
    counting.calls.clear()
    return TracedSteps(Subject(model, family_of(model), EstimateChoice(**options))), counting


def traced_at(steps: TracedSteps, counting: Counting, *batches: int) -> list[int | None]:
    """The batches that were traced for these; each step is as a trace of its own has it."""
    made = [steps.trace(batch) for batch in batches]
    traced = list(counting.calls)
    for step in made:
        alone = steps.subject.trace(step.batch_size)
        assert _in_bytes(alone) == _in_bytes(step)
    return traced


def _in_bytes(step: Step) -> Step:
    """Without what differs between two optimizers that were made alike: their names."""
    variables = tuple(each._replace(name="") for each in step.variables)
    operations = tuple(each._replace(name="") for each in step.operations)
    return step._replace(origin=None, variables=variables, operations=operations)


def check_a_third_batch_size_needs_no_trace() -> None:
    """It follows from the first two, in training as in inference, in any precision."""
    for options in ({}, {"training": False}, {"policy": "mixed_float16", "optimizer": "sgd"}):
        assert traced_at(*steps_of(**options), 16, 32, 24, 7, 500) == [16, 32]


def check_what_does_not_follow_is_traced() -> None:
    """Sizes that are not in proportion to the batch, one sample, and a few zeros or many."""
    assert traced_at(*steps_of(PairsOfSamples()), 16, 32, 24) == [16, 32, 24]
    assert traced_at(*steps_of(), 16, 32, 1) == [16, 32, 1]
    assert traced_at(*steps_of(AddedZeros()), 16, 32, 24, 200) == [16, 32, 200]
