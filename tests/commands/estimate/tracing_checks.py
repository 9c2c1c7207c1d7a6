"""Checks of traced Keras models, run by ``test_in_tensorflow``: what a step of them is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import keras
import pytest
from keras import layers

from gpuconf.commands.estimate.compile_target import CompileTarget
from gpuconf.commands.estimate.estimate_request import EstimateRequest
from gpuconf.commands.estimate.keras_models.preparing import EstimateChoice
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    BACKWARD,
    DATA,
    FORWARD,
    GRADIENT,
    UPDATE,
    Step,
)
from gpuconf.support.keras_api.families import family_of

BATCH = 8


RUNNER = StepRunner(CompileTarget(), allow_growth=False)  # which all checks share


@pytest.fixture(scope="module", autouse=True)
def _runner() -> Iterator[None]:
    with RUNNER:
        yield


def traced(model: Any, batch_size: int = BATCH, **options: Any) -> Step:
    """A step of the model that ran; the options are those of a choice."""
    choice = EstimateChoice(jit=False, **options)
    return EstimateRequest(model, family_of(model), choice, RUNNER).trace(batch_size)


def bytes_by_kind(step: Step) -> Counter[str]:
    """All that is ever made of each kind, not at once."""
    found: Counter[str] = Counter()
    for piece in step.pieces:
        found[piece.kind] += piece.size_bytes
    return found


def layers_in(step: Step, part: str) -> set[str | None]:
    """The layers of the operations of a part."""
    return {each.layer for each in step.operations if each.part == part}


def dense(*sizes: int, features: int = 512) -> Any:
    """Dense layers one after the other."""
    stack = [layers.Dense(size, name=f"dense_{at}") for at, size in enumerate(sizes)]
    return keras.Sequential([keras.Input((features,)), *stack])


def check_every_part_of_a_step_is_there() -> None:
    """Forward, backward and update, with the layers that they are of."""
    model = dense(256, 2)
    model.compile("adam", "mse")
    step = traced(model)
    assert layers_in(step, FORWARD) == {"dense_0", "dense_1", None}
    assert layers_in(step, BACKWARD) == {"dense_0", "dense_1", None}
    assert layers_in(step, UPDATE) == {None}
    assert step.layers == {"dense_0": "Dense", "dense_1": "Dense"}
    parts = {each.part for each in traced(model, training=False).operations}
    assert parts == {FORWARD}


def check_a_batch_stays_through_the_step() -> None:
    """Inputs and targets of the batch, as they come from ``fit``."""
    model = dense(2)
    model.compile("sgd", "mse")
    step = traced(model)
    data = [piece for piece in step.pieces if piece.kind == DATA]
    assert sorted(piece.size_bytes for piece in data) == [BATCH * 2 * 4, BATCH * 512 * 4]
    assert {(piece.first, piece.last) for piece in data} == {(0, len(step.operations) - 1)}


def check_every_weight_has_a_gradient() -> None:
    """Of its size, made by its layer on the way back."""
    model = dense(256, 128, 2)
    model.compile("sgd", "mse")
    step = traced(model)
    found = Counter(
        (step.operations[piece.first].layer, piece.size_bytes)
        for piece in step.pieces
        if piece.kind == GRADIENT and step.operations[piece.first].layer is not None
    )
    weights = Counter((each.layer, each.size_bytes) for each in step.variables if each.layer)
    assert weights.total() == 6
    assert weights <= found


def check_what_an_optimizer_keeps_is_with_its_weight() -> None:
    """Two states of Adam for each weight, in the row of the weight's layer."""
    model = dense(256, 2)
    model.compile("adam", "mse")
    step = traced(model)
    by_layer: Counter[tuple[str, str | None]] = Counter()
    for each in step.variables:
        by_layer[each.kind, each.layer] += each.size_bytes
    for layer in ("dense_0", "dense_1"):
        assert by_layer["optimizer state", layer] == 2 * by_layer["weights", layer]


def check_inference_keeps_nothing() -> None:
    """At no time is there more than a layer's input and output next to the weights and the data."""
    model = dense(512, 512, 512, 512)
    step = traced(model, 1024, training=False)
    vector = 1024 * 512 * 4
    done = step.memory
    assert 2 * vector <= max(done.in_use_bytes) - step.resident_bytes <= 3.5 * vector


def check_models_and_own_layers_are_opened() -> None:
    """A path goes into nested models and layers of the user's own, not into Keras's."""

    class Block(layers.Layer):
        def __init__(self) -> None:
            super().__init__(name="block")
            self.attention = layers.MultiHeadAttention(2, 8, name="attention")
            self.scale = layers.Dense(16, name="scale")

        def call(self, inputs: Any) -> Any:
            return self.scale(self.attention(inputs, inputs))

    encoder = keras.Sequential([keras.Input((10, 16)), Block()], name="encoder")
    inputs = keras.Input((10, 16))
    model = keras.Model(inputs, layers.Bidirectional(layers.GRU(4), name="two")(encoder(inputs)))
    model.compile("sgd", "mse")
    step = traced(model)
    leaves = {"encoder/block/attention", "encoder/block/scale", "two"}
    assert leaves <= set(step.layers)
    assert not [path for path in step.layers if path.startswith(("two/", "encoder/block/att"))][1:]
    of_weights = {each.layer for each in step.variables if each.kind == "weights"}
    assert of_weights == leaves


def check_a_shared_layer_is_one() -> None:
    """Called three times: one row, its weights once, results of all three calls."""
    shared = layers.Dense(64, activation="tanh", name="shared")
    inputs = keras.Input((64,))
    model = keras.Model(inputs, shared(shared(shared(inputs))))
    model.compile("sgd", "mse")
    step = traced(model, 256)
    assert set(step.layers) == {"shared"}
    weights = [each for each in step.variables if each.kind == "weights"]
    assert [(each.layer, each.size_bytes) for each in weights] == [
        ("shared", 64 * 64 * 4),
        ("shared", 64 * 4),
    ]
    assert bytes_by_kind(step)[ACTIVATION] >= 3 * 256 * 64 * 4
