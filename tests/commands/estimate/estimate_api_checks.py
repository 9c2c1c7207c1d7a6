"""Checks of ``gpuconf.estimate``, run by ``test_estimate_api``: what it takes, what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from keras import layers

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate import MemoryEstimate
from tests.commands.estimate.op_by_op import op_by_op, refused

BATCH = 16
_X = np.random.default_rng(6).normal(size=(64, 12, 12, 3)).astype("float32")
_Y = np.random.default_rng(7).integers(0, 4, 64)


def dense(features: int = 8, size: int = 4) -> Any:
    """A small model, not compiled."""
    return keras.Sequential([keras.Input((features,)), layers.Dense(size)])


def network(of: Any = keras) -> Any:
    """All that could be left changed: random numbers, moving averages, losses of layers."""
    of.utils.set_random_seed(6)
    stack = of.layers
    model = of.Sequential(
        [
            of.Input((12, 12, 3)),
            stack.Conv2D(8, 3, activation="relu"),
            stack.BatchNormalization(),
            stack.Dropout(0.3),
            stack.Flatten(),
            stack.Dense(4, activation="softmax", activity_regularizer="l2"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def trained(model: Any) -> dict[str, list[float]]:
    """The history of two epochs."""
    fitted = model.fit(_X, _Y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
    return dict(fitted.history)


def identities(model: Any) -> dict[str, Any]:
    """What the model and its optimizer consist of, by identity, and how long their lists are."""
    return {
        f"{type(owner).__name__}.{name}": (id(value), len(value) if type(value) is list else 0)
        for owner in (model, model.optimizer)
        for name, value in vars(owner).items()
    }


def check_arrays_that_fit_copies() -> None:
    """They are there at any time, given as arrays or as sizes."""
    whole = [np.empty(90 * MIB, "uint8"), 6 * MIB]
    without, copied = (
        op_by_op(network(), BATCH, arrays=arrays, allow_growth=False) for arrays in ((), whole)
    )
    assert copied.peak_bytes - without.peak_bytes == pytest.approx(96 * MIB, rel=0.01)
    assert copied.resident_bytes == without.resident_bytes + 96 * MIB
    with refused("arrays=-1 is not an integer of at least 0"):
        op_by_op(network(), BATCH, arrays=[-1])


def _fails(model: Any) -> None:
    with refused("division by zero"):
        op_by_op(model, BATCH, loss=lambda _true, _predicted: 1 / 0)


ESTIMATES: dict[str, Callable[[Any], object]] = {
    "advice": lambda model: op_by_op(model, BATCH, phases=True, advise=True),
    "inference": lambda model: op_by_op(model, BATCH, training=False),
    "others": lambda model: op_by_op(model, BATCH, optimizer="sgd", loss="mse"),
    "failing": _fails,
}


def _check_unchanged(of: Any) -> None:
    """After each of the estimates nothing has moved, and after all of them it trains as ever."""
    trained_alone = network(of)
    right = [trained(trained_alone), trained(trained_alone)]
    model = network(of)
    weights = [variable.numpy() for variable in model.variables]
    before, losses = identities(model), [id(each) for each in model.losses]
    for name, make in ESTIMATES.items():
        make(model)
        assert identities(model) == before, name
        assert [id(each) for each in model.losses] == losses, name
        for one, variable in zip(weights, model.variables, strict=True):
            np.testing.assert_array_equal(one, variable.numpy())
        assert not getattr(model.optimizer, "built", False) or of is tf_keras
    assert trained(model) == right[0]
    op_by_op(model, BATCH, phases=True)
    assert trained(model) == right[1], "after an estimate between two trainings"


def check_the_model_is_as_before() -> None:
    """Attributes, weights, the optimizer; and ``fit`` gives the same numbers, bit by bit."""
    _check_unchanged(keras)


def check_a_model_of_keras_2_is_as_before() -> None:
    """The same of ``tf_keras``."""
    _check_unchanged(tf_keras)


def check_a_model_that_is_not_compiled() -> None:
    """Adam and the mean squared error, and it says so; what is given is taken."""
    model = dense()
    made = op_by_op(model, BATCH)
    assert made.setting is not None
    assert (made.setting.optimizer, made.setting.loss) == ("Adam", "mean_squared_error")
    assert sum("assumed" in note for note in made.notes) == 2
    told = op_by_op(model, BATCH, optimizer=keras.optimizers.SGD(0.1), loss="mae")
    assert told.setting is not None
    assert (told.setting.optimizer, told.setting.loss, told.notes) == ("SGD", "mae", ())
    assert told.resident_bytes < made.resident_bytes
    assert not model.compiled


def check_the_models_own_choice_is_taken_and_may_be_overridden() -> None:
    """As it was compiled; another optimizer or loss for this estimate alone."""
    model = dense()
    model.compile(keras.optimizers.SGD(momentum=0.9), "mae")
    weights = (8 * 4 + 4) * 4
    own = op_by_op(model, BATCH)
    assert own.setting is not None
    assert (own.setting.optimizer, own.setting.loss) == ("SGD", "mae")
    assert 2 * weights < own.resident_bytes < 2.5 * weights
    other = op_by_op(model, BATCH, optimizer="adam")
    assert other.setting is not None
    assert (other.setting.optimizer, other.setting.loss) == ("Adam", "mae")
    assert 3 * weights < other.resident_bytes < 3.5 * weights
    assert model.optimizer.momentum == 0.9


def check_mixed_precision() -> None:
    """Half the activations, in each of its spellings; the layers' own policy is put back."""
    model = keras.Sequential([keras.Input((64,))])
    for _ in range(8):
        model.add(layers.Dense(64, activation="tanh"))
    policies = [layer.dtype_policy for layer in model.layers]
    full = op_by_op(model, 4096).peak_bytes
    spellings = {
        True: "mixed_float16", "float16": "mixed_float16", "mixed_float16": "mixed_float16",
        "bfloat16": "mixed_bfloat16", "mixed_bfloat16": "mixed_bfloat16",
    }  # fmt: skip
    for spelling, policy in spellings.items():
        made = op_by_op(model, 4096, mixed_precision=spelling)
        assert made.setting is not None
        assert made.setting.precision == policy
        assert made.peak_bytes < 0.8 * full
    assert op_by_op(model, 4096, mixed_precision=False).peak_bytes == full
    assert [layer.dtype_policy for layer in model.layers] == policies
    assert model.dtype_policy.name == keras.config.dtype_policy().name == "float32"
    with refused("int8"):
        op_by_op(model, mixed_precision="int8")


def check_a_model_of_mixed_precision_may_be_asked_for_full() -> None:
    """``mixed_precision=False`` of a model that was built under the policy."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = keras.Sequential([keras.Input((64,)), *(layers.Dense(64) for _ in range(4))])
    finally:
        keras.config.set_dtype_policy("float32")
    own = op_by_op(model, 4096)
    full = op_by_op(model, 4096, mixed_precision=False)
    assert own.setting is not None
    assert full.setting is not None
    assert (own.setting.precision, full.setting.precision) == ("mixed_float16", "float32")
    assert own.peak_bytes < full.peak_bytes


def check_batches_are_whole_numbers() -> None:
    """0, -1, True, 2.5, text and None are refused; a number of numpy is one."""
    model = dense()
    for wrong in (0, -1, True, 2.5, "32", None):
        with refused("batch_size", repr(wrong)):
            op_by_op(model, wrong)  # type: ignore[arg-type]
    assert op_by_op(model, np.int64(4)).batch_size == 4  # type: ignore[arg-type]


def check_limits() -> None:
    """Bytes and sizes; anything else is refused with the rule."""
    model = dense(512, 512)
    for limit in (64 * MIB, "64MiB", "0.0625 GiB", np.int64(64 * MIB)):
        made = op_by_op(model, limit=limit)  # type: ignore[arg-type]
        assert made.limit_bytes == 64 * MIB
        assert made.fits
        assert (made.largest_batch or 0) > 1000
    for wrong in ("64", "64 megs", "-1MiB", 0, -5, 1.5, [64], ""):
        with refused("limit", repr(wrong)):
            op_by_op(model, limit=wrong)  # type: ignore[arg-type]
    small = op_by_op(model, limit="1MiB")
    assert (small.largest_batch, small.fits) == (0, False)
    assert op_by_op(model).fits is None


def check_the_largest_batch_is_one_that_fits() -> None:
    """Estimated by itself it needs no more than the limit; some 5 % more do not fit."""
    model = keras.Sequential([keras.Input((256,)), *(layers.Dense(256) for _ in range(6))])
    made = op_by_op(model, limit="100MiB", allow_growth=False)
    batch = made.largest_batch or 0
    assert made.fits
    fitting, larger = (
        op_by_op(model, size, allow_growth=False).peak_bytes for size in (batch, batch * 11 // 10)
    )
    assert 0.9 * 100 * MIB < fitting <= 0.97 * 100 * MIB < larger


def check_what_is_no_model_is_refused() -> None:
    """A layer, a function, a class, something like PyTorch's, nothing: each with what to give."""

    class Module:
        def named_parameters(self) -> list[Any]:
            return []

    for wrong, hint in (
        (layers.Dense(2), "Sequential"),
        (dense, "make_model()"),
        (keras.Sequential, "not its class"),
        (Module(), "PyTorch"),
        (None, "keras.Model"),
        ("model.keras", "gpuconf estimate"),
    ):
        with refused(hint):
            op_by_op(wrong)


def check_an_unknown_optimizer_or_loss_is_refused() -> None:
    """By its name, or something else altogether."""
    for wrong in ("nope", 3):
        with refused("optimizer", repr(wrong)):
            op_by_op(dense(), optimizer=wrong)
    with refused("nope"):
        op_by_op(dense(), loss="nope")


def check_data_is_given_as_fit_takes_it() -> None:
    """Arrays, tensors or specs, of whatever batch: only shapes and types are looked at."""
    model = dense()
    model.compile("sgd", "mse")
    right = op_by_op(model, BATCH)
    spec = tf.TensorSpec([None, 8], tf.float32), tf.TensorSpec([None, 4], tf.float32)
    for data in (
        (np.zeros((1, 8)), np.zeros((1, 4))),
        (np.zeros((7, 8), "float32"), tf.zeros((3, 4))),
        spec,
    ):
        assert op_by_op(model, BATCH, data=data).peak_bytes == right.peak_bytes
    inference = op_by_op(model, BATCH, training=False)
    for inputs in (np.zeros((1, 8)), spec[0], spec, (np.zeros((1, 8)), None)):
        assert op_by_op(model, BATCH, data=inputs, training=False) == inference
    weighted = (*spec, tf.TensorSpec([None], tf.float32))
    assert op_by_op(model, BATCH, data=weighted).peak_bytes >= right.peak_bytes
    for wrong, words in (
        ((1, 2, 3, 4), "parts"),
        ([[1, 2]], "batch dimension"),
        ((np.zeros((1, 9)), np.zeros((1, 4))), "expected axis -1"),
    ):
        with refused(words):
            op_by_op(model, BATCH, data=wrong)


def check_the_rows_add_up() -> None:
    """The layers' rows and the rest are the peak, to the byte; so is each moment's sum in all."""
    for options in ({}, {"training": False}, {"allow_growth": False}):
        made: MemoryEstimate = op_by_op(network(), BATCH, **options)
        assert sum(row.total_bytes for row in made.layers) == made.peak_bytes
        assert made.layers[-1].layer is None
        assert max(moment.total_bytes for moment in made.timeline) <= made.peak_bytes
        assert made.tier == "simulated-card"
