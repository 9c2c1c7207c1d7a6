"""Without out-of-memory: what Keras's own ``fit``, ``evaluate`` and ``predict`` give, we give.

Run by ``test_in_tensorflow``. Each model is trained by Keras, by us with whole batches, and by
us in parts of at most six samples, from the same weights and seeds.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gpuconf import batching
from gpuconf.batching import evaluating, first_size
from gpuconf.batching.size import CardBatch, SizeKey
from tests.batching.batching_models import (
    BATCH,
    HALVES,
    IS_KERAS_3,
    TAGS,
    WEIGHTS,
    WORDS,
    Case,
    X,
    Y,
    arrays,
    assert_history,
    assert_same,
    compiled,
    crossentropy,
    dense,
    even_arrays,
    keras,
    layers,
    seeded,
    weights_of,
)

optimizers = keras.optimizers


class Penalized(layers.Layer):
    """A loss and a metric of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = keras.metrics.Mean(name="seen")

    def call(self, inputs: Any) -> Any:
        self.add_loss(0.1 * tf.reduce_mean(inputs**2))
        self.seen.update_state(tf.reduce_mean(inputs, axis=-1))
        return inputs


class OwnLoss(keras.Model):
    """``compute_loss``, in the signature of both Kerases."""

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, *_: Any, **__: Any
    ) -> Any:
        loss = tf.reduce_mean((y_pred[:, 0] - tf.cast(y, y_pred.dtype)) ** 2)
        if not IS_KERAS_3:
            self.compiled_loss._total_loss_mean.update_state(loss, sample_weight=tf.shape(x)[0])
        return loss


class Unbuilt(keras.Model):
    """Without input shapes, so that all variables are made in the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.norm = layers.Dense(8, activation="tanh"), layers.BatchNormalization()
        self.drop, self.out = layers.Dropout(0.4), layers.Dense(3)

    def call(self, inputs: Any, training: Any = None) -> Any:
        hidden = self.norm(self.hidden(inputs), training=training)
        return self.out(self.drop(hidden, training=training))


def regularized() -> Case:
    """What adds to the loss, and an optimizer with much state.

    Keras before 3.14 sums an activity penalty over the batch, so that it has no parts.
    """
    is_a_mean = not IS_KERAS_3 or int(keras.__version__.split(".")[1]) >= 14
    options = {"clipnorm": 0.5, "weight_decay": 0.1, "use_ema": True, "ema_overwrite_frequency": 3}
    part = layers.Dense(4, kernel_regularizer="l2", activity_regularizer="l2")
    return Case(
        dense(part, Penalized(), optimizer=optimizers.AdamW(0.01, **options)),
        even_arrays(),
        1e-5 if is_a_mean else None,
    )


def weighted() -> Case:
    """Floats of another precision, sample weights, validation with weights, a partial batch."""
    model = dense(weighted_metrics=["accuracy"], metrics=["accuracy"])
    held_out = (X[:20].astype("float64"), Y[:20], WEIGHTS[:20])
    weights = WEIGHTS.astype("float64")
    return Case(
        model, arrays(x=X.astype("float64"), sample_weight=weights, validation_data=held_out)
    )


def masked() -> Case:
    """Embeddings, of which gradients are rows, and a mask, through a recurrent layer."""
    inputs = keras.Input((5,), dtype="int32")
    hidden = layers.Embedding(9, 4, mask_zero=True)(inputs)
    outputs = layers.Dense(3)(layers.LSTM(4, return_sequences=True)(hidden))
    model = compiled(keras.Model(inputs, outputs), optimizer=optimizers.Adam(0.01))
    return Case(model, even_arrays(x=WORDS, y=TAGS))


def own_loss() -> Case:
    """With a layer that is not trained."""
    inputs = keras.Input((6,))
    frozen = layers.Dense(8, activation="tanh", trainable=False)
    return Case(compiled(OwnLoss(inputs, layers.Dense(3)(frozen(inputs)))), even_arrays())


def several() -> Case:
    """Two inputs and two outputs, by name, with weights for each."""
    one, two = keras.Input((6,), name="one"), keras.Input((6,), name="two")
    hidden = layers.Dense(8, activation="tanh")(layers.Concatenate()([one, two]))
    outputs = {"p": layers.Dense(3, name="p")(hidden), "q": layers.Dense(1, name="q")(hidden)}
    model = keras.Model({"one": one, "two": two}, outputs)
    model.compile(
        optimizers.SGD(0.1),
        loss={"p": crossentropy(), "q": "mse"},
        loss_weights={"p": 1.0, "q": 0.3},
        metrics={"p": ["accuracy"], "q": ["mae"]},
    )
    x = {"one": X, "two": X[:, ::-1].copy()}
    weights = {"p": WEIGHTS, "q": WEIGHTS[::-1].copy()}
    return Case(model, arrays(x=x, y={"p": Y, "q": HALVES}, sample_weight=weights))


def summed() -> Case:
    """A loss that is a sum, and a penalty that counts once a batch."""
    part = layers.Dense(4, kernel_regularizer="l2" if IS_KERAS_3 else None)
    loss = crossentropy(reduction="sum")
    return Case(dense(part, loss=loss, optimizer=optimizers.SGD(0.003)), even_arrays())


def halved_precision() -> Case:
    """Mixed precision, whose optimizer scales the loss."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        return Case(dense(optimizer=optimizers.Adam(0.01)), even_arrays(), 5e-3)
    finally:
        keras.mixed_precision.set_global_policy("float32")


def mirrored() -> Case:
    """A strategy of one replica."""
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        return Case(dense(optimizer=optimizers.Adam(0.01)), even_arrays())


def whole(layer: Any, **options: Any) -> Case:
    """A layer that looks at the batch as a whole, or draws numbers for each part."""
    return Case(dense(layer, layers.Dropout(0.3), **options), even_arrays(), None)


CASES: dict[str, Callable[[], Case]] = {
    "regularized": regularized,
    "weighted": weighted,
    "class weights": lambda: Case(
        dense(weighted_metrics=["accuracy"]),
        even_arrays(class_weight={0: 1.0, 1: 2.0, 2: 0.5}, steps_per_epoch=2, initial_epoch=1),
    ),
    "executions": lambda: Case(
        dense(steps_per_execution=3),
        {"x": tf.data.Dataset.from_tensor_slices((X[:48], Y[:48])).batch(BATCH).repeat()}
        | {"epochs": 2, "steps_per_epoch": 5, "shuffle": False},
    ),
    "eager": lambda: whole(layers.BatchNormalization(), run_eagerly=True),
    "compiled by XLA": lambda: Case(dense(jit_compile=True), even_arrays()),
    "masked": masked,
    "summed": summed,
    "own loss": own_loss,
    "unbuilt": lambda: Case(compiled(Unbuilt()), even_arrays(), None),
    "several": several,
    "half precision": halved_precision,
    "mirrored": mirrored,
}
if IS_KERAS_3:  # whose Adam counts a row that comes twice in another way than its sum
    CASES["accumulated"] = lambda: Case(
        dense(optimizer=optimizers.SGD(0.1, gradient_accumulation_steps=2)),
        even_arrays(shuffle="batch"),
    )

# The others take as long again: BATCHING_ALL=1, which the nightly test sets, adds them.
EVERY_TIME = {"regularized", "weighted", "masked", "unbuilt", "mirrored"}
if not os.environ.get("BATCHING_ALL"):
    CASES = {name: case for name, case in CASES.items() if name in EVERY_TIME}
# Metrics that take more than the mean over samples.
EVALUATED = {"weighted", "executions", "masked", "summed", "own loss", "several"}

# Written by other kernels, or by XLA in another order: nearly the same.
NEARLY = 2e-6


def trained(name: str, fit: Callable[..., Any], **more: Any) -> tuple[Any, Any, Any]:
    """The case's model after training, its history, and all its variables."""
    seeded()
    case = CASES[name]()
    history = fit(case.model, **{"verbose": 0, **case.data, **more}).history
    return case, history, weights_of(case.model)


def kerass(model: Any, **options: Any) -> Any:
    """Keras's own fit."""
    return model.fit(**options)


@pytest.mark.parametrize("name", CASES)
def check_training_and_evaluation(name: str) -> None:
    """History, weights, optimizer; metrics and outputs of the trained model; whole and in parts."""
    case, theirs, variables = trained(name, kerass)
    same, ours, found = trained(name, batching.fit)
    assert_history(ours, theirs, NEARLY)
    draws_otherwise = name == "unbuilt" and not IS_KERAS_3
    if not draws_otherwise:
        assert_same(found, variables, 1e-3 if name == "half precision" else NEARLY)
    if name in EVALUATED:
        _check_evaluation(same)
    if case.parts_rtol:
        _, in_parts, found = trained(name, batching.fit, card_batch_size=6)
        assert_history(in_parts, ours, case.parts_rtol)
        assert_same(found, variables, case.parts_rtol)


def _check_evaluation(case: Case) -> None:
    """Keras's numbers, in Keras's order, with whole batches and where the GPU takes six."""
    data = {key: case.data[key] for key in ("x", "y", "sample_weight") if key in case.data}
    data |= {"batch_size": BATCH} if "batch_size" in case.data else {"steps": 3}
    theirs = case.model.evaluate(verbose=0, return_dict=True, **data)
    ours = batching.evaluate(case.model, verbose=0, return_dict=True, **data)
    assert_history(ours, theirs, NEARLY)
    flat = batching.evaluate(case.model, verbose=0, **data)
    assert type(flat) is type(case.model.evaluate(verbose=0, **data))
    assert_history(_evaluated_in_parts(case.model, data), ours, 2e-6)
    if "steps" not in data:
        x = data["x"]
        outputs = case.model.predict(x, batch_size=BATCH, verbose=0)
        gathered = batching.predict(case.model, x, batch_size=BATCH, verbose=0)
        tf.nest.assert_same_structure(gathered, outputs)
        assert_same(gathered, outputs, NEARLY)


def _evaluated_in_parts(model: Any, data: dict[str, Any]) -> Any:
    """As on a GPU of which a size is remembered; the public way to it is an out-of-memory."""
    evaluating.size_for = lambda *_, **options: _of_six(options["max_retries"])
    try:
        return batching.evaluate(model, verbose=0, return_dict=True, **data)
    finally:
        evaluating.size_for = first_size.size_for


def _of_six(max_retries: int) -> Any:
    key = SizeKey("check", (), "", None)
    return CardBatch(key, what="check", most=6, max_retries=max_retries)


def check_losses_of_outputs_count_samples() -> None:
    """Where Keras 3 counts batches, each output's loss is that of all samples, in parts too."""
    seeded()
    case = several()
    data = {key: case.data[key] for key in ("x", "y", "sample_weight")}
    once = case.model.evaluate(verbose=0, return_dict=True, batch_size=len(X), **data)
    ours = batching.evaluate(case.model, verbose=0, return_dict=True, batch_size=BATCH, **data)
    for found in (ours, _evaluated_in_parts(case.model, {**data, "batch_size": BATCH})):
        for name, value in once.items():
            assert found[name] == pytest.approx(value, rel=2e-6), name


def contrastive(_wanted: Any, found: Any) -> Any:
    """Compares each sample with all others of its batch."""
    return keras.losses.sparse_categorical_crossentropy(
        tf.range(tf.shape(found)[0]), found @ tf.transpose(found), from_logits=True
    )


def check_an_own_loss_in_parts_is_mentioned() -> None:
    """Once, and only if a batch is split; Keras's losses need no assumption."""
    rows = ((contrastive, 6, 1), (contrastive, None, 0), (crossentropy(), 6, 0))
    for loss, parts, times in rows:
        model = keras.Sequential([keras.Input((6,)), layers.Dense(3)])
        model.compile("sgd", loss)
        said = io.StringIO()
        with redirect_stderr(said):
            batching.fit(
                model, X[:BATCH], Y[:BATCH], BATCH, verbose=0, epochs=2, card_batch_size=parts
            )
        assert said.getvalue().count("contrastive is assumed to compute each") == times


def check_moving_statistics_move_once_a_batch() -> None:
    """In parts, the mean moves as by the whole batch; it and the variance move once."""
    found = []
    for more in ({}, {"card_batch_size": 6}):
        seeded()
        norm = layers.BatchNormalization(momentum=0.9)
        model = compiled(keras.Sequential([keras.Input((6,)), norm, layers.Dense(3)]))
        batching.fit(model, X[:BATCH], Y[:BATCH], BATCH, verbose=0, **more)
        found.append([np.array(tf.convert_to_tensor(each)) for each in norm.weights[2:]])
    (mean, variance), (mean_of_parts, variance_of_parts) = found
    np.testing.assert_allclose(mean_of_parts, mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(mean, 0.1 * X[:BATCH].mean(axis=0), rtol=1e-4, atol=1e-7)
    assert (variance_of_parts <= variance + 1e-6).all()
    assert (variance_of_parts > 0.9).all()


def check_an_activity_penalty_of_an_older_keras_has_no_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keras 3 before 3.14 sums it over the samples: a mean of parts is another loss."""
    if not IS_KERAS_3:
        return
    monkeypatch.setattr(keras, "__version__", "3.13.2")
    model = dense(layers.Dense(4, activity_regularizer="l2", name="penal"))
    data = {"x": X, "y": Y, "batch_size": BATCH, "verbose": 0}
    batching.fit(model, **data)
    with pytest.raises(batching.fitting.UsageError, match="activity_regularizer of penal"):
        batching.fit(model, **data, card_batch_size=4)


def check_a_mask_for_each_output_has_no_parts() -> None:
    """Each output's loss is a mean over what its own mask leaves: parts do not make the whole."""
    inputs, plain = keras.Input((5,), dtype="int32"), keras.Input((6,))
    tags = layers.Dense(3)(layers.Embedding(9, 4, mask_zero=True)(inputs))
    model = keras.Model([inputs, plain], [tags, layers.Dense(3)(plain)])
    model.compile("sgd", [crossentropy(), crossentropy()])
    data = {"x": [WORDS, X], "y": [TAGS, Y], "batch_size": BATCH, "verbose": 0}
    batching.fit(model, **data)
    with pytest.raises(batching.fitting.UsageError, match="its own mask") as caught:
        batching.fit(model, **data, card_batch_size=4)
    assert caught.value.hint
