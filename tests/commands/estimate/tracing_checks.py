"""Checks of traced Keras models, run by ``test_in_tensorflow``: what a step of them is made of."""

from __future__ import annotations

from collections import Counter
from typing import Any

import keras
from keras import layers

from gpuconf.commands.estimate.keras_models.preparing import EstimateChoice
from gpuconf.commands.estimate.phases import are_alike
from gpuconf.commands.estimate.replay import replay
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    BACKWARD,
    CONSTANT,
    DATA,
    FORWARD,
    GRADIENT,
    UPDATE,
    Step,
)
from gpuconf.commands.estimate.subject import Subject
from gpuconf.support.keras_api.families import family_of
from tests.commands.estimate.miniatures import convnet

BATCH = 8


def traced(model: Any, batch_size: int = BATCH, **options: Any) -> Step:
    """A step of the model; the options are those of a choice."""
    return Subject(model, family_of(model), EstimateChoice(**options)).trace(batch_size)


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
    """Of its size, made by its layer on the way back, and kept until the update."""
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
    done = replay(step)
    assert 2 * vector <= max(done.in_use_bytes) - done.resident_bytes <= 3.5 * vector


def check_activations_are_kept_for_the_way_back() -> None:
    """Where the way back begins, the outputs of all layers whose gradients need them are there."""
    model = keras.Sequential([keras.Input((64,))])
    for _ in range(6):
        model.add(layers.Dense(64, activation="tanh"))
    model.compile("sgd", "mse")
    step = traced(model, 1024)
    first = min(at for at, each in enumerate(step.operations) if "TanhGrad" in each.kind)
    live = [each for each in step.pieces if each.first < first <= each.last + 1]
    kept = sum(each.size_bytes for each in live if each.kind == ACTIVATION)
    assert 6 * 1024 * 64 * 4 <= kept <= 7 * 1024 * 64 * 4


def check_a_recurrent_layer_turns_for_each_of_its_steps() -> None:
    """An LSTM on films twice as long has twice as many operations, and keeps twice as much.

    One that cuDNN's kernel can compute is one operation of any length, as on a GPU; its gates and
    cells, five times the result, are kept for the backward pass.
    """

    def of_length(length: int, activation: str = "relu") -> tuple[Step, int]:
        recurrent = layers.LSTM(64, activation=activation)
        model = keras.Sequential([keras.Input((length, 32)), recurrent, layers.Dense(2)])
        model.compile("sgd", "mse")
        step = traced(model, 64)
        assert not step.notes
        done = replay(step)
        return step, max(done.in_use_bytes) - done.resident_bytes

    (few, small), (many, large) = of_length(20), of_length(40)
    assert 1.8 < len(many.operations) / len(few.operations) < 2.1
    assert 1.8 < large / small < 2.2
    if not keras.__version__.startswith("3"):
        return  # its graph holds the loop, in place of which TensorFlow later runs the kernel
    steps = {length: of_length(length, "tanh")[0] for length in (20, 40)}
    assert len(steps[20].operations) == len(steps[40].operations)
    for length, step in steps.items():
        made = [(step.operations[each.first].kind, each.size_bytes) for each in step.pieces]
        assert ("CudnnRNNV3", 5 * length * 64 * 64 * 4) in made


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


def check_two_traces_differ_in_sizes_alone() -> None:
    """Batch 8 and 16 of a network with all kinds of layers are alike: the formula rests on it."""
    model = convnet()
    for optimizer in ("adam", "adafactor"):
        model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
        assert are_alike(traced(model, 8), traced(model, 16))
        assert not traced(model, 8).notes


def check_a_table_updated_by_rows_is_copied_to_be_read() -> None:
    """From the second step on TensorFlow copies an embedding's table to look words up."""
    model = keras.Sequential(
        [keras.Input((4,), dtype="int32"), layers.Embedding(10000, 64), layers.Flatten()]
    )
    model.compile("sgd", "mse")
    step = traced(model)
    table = 10000 * 64 * 4
    copies = [each for each in step.pieces if each.size_bytes == table]
    assert copies
    assert step.operations[copies[0].first].kind == "ReadVariableOp"
    assert not [each for each in traced(model, training=False).pieces if each.size_bytes == table]


def check_constants_of_a_model_are_constants() -> None:
    """A table that a layer holds as an array is for the whole step there."""

    class Positions(layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs + keras.ops.convert_to_tensor(TABLE)

    model = keras.Sequential([keras.Input((100, 64)), Positions(), layers.Dense(4)])
    model.compile("sgd", "mse")
    constants = [each.size_bytes for each in traced(model).pieces if each.kind == CONSTANT]
    assert 100 * 64 * 4 in constants


TABLE = keras.ops.convert_to_numpy(keras.random.uniform((100, 64)))
