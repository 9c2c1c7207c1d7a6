"""Small models and data for the checks of ``gpuconf.batching``, in the Keras that is requested.

``CHECKED_KERAS=tf_keras`` runs the same checks in Keras 2.  Keras on PyTorch and JAX takes the data
too, so importing this imports no TensorFlow.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, NamedTuple

import numpy as np

keras = importlib.import_module(os.environ.get("CHECKED_KERAS", "keras"))
layers = keras.layers
IS_KERAS_3 = int(keras.__version__.partition(".")[0]) >= 3

_RANDOM = np.random.default_rng(11)
SAMPLES = 53  # batches of 16: three whole ones, and one of 5
BATCH = 16
X = _RANDOM.normal(size=(SAMPLES, 6)).astype("float32")
Y = _RANDOM.integers(0, 3, SAMPLES)
HALVES = (Y > 0).astype("float32")
WEIGHTS = _RANDOM.uniform(0.2, 2.0, SAMPLES).astype("float32")
WORDS = _RANDOM.integers(0, 9, (SAMPLES, 5)) * (_RANDOM.uniform(size=(SAMPLES, 5)) > 0.4)
WORDS = WORDS.astype("int32")
TAGS = _RANDOM.integers(0, 3, (SAMPLES, 5))


class Case(NamedTuple):
    """A compiled model, what ``fit`` is given, and how far parts may be from the whole."""

    model: Any
    data: dict[str, Any]
    parts_rtol: float | None = 1e-5


def dense(*more: Any, inputs: int = 6, outputs: int = 3, **options: Any) -> Any:
    """A classifier, compiled with SGD."""
    model = keras.Sequential(
        [keras.Input((inputs,)), layers.Dense(8, activation="tanh"), *more, layers.Dense(outputs)]
    )
    return compiled(model, **options)


def crossentropy(**options: Any) -> Any:
    """The classifier's loss."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)


def compiled(model: Any, **options: Any) -> Any:
    """The model with what a classifier needs, and these options of ``compile``."""
    defaults = {"optimizer": keras.optimizers.SGD(0.1), "loss": crossentropy()}
    if "metrics" not in options and "loss" not in options:
        defaults["metrics"] = ["accuracy"]
    model.compile(**{**defaults, **options})
    return model


def arrays(**more: Any) -> dict[str, Any]:
    """Arrays, and how they are taken."""
    return {"x": X, "y": Y, "batch_size": BATCH, "epochs": 2, **more}


def weights_of(model: Any) -> list[Any]:
    """All weights and all that the optimizer has, as arrays."""
    import tensorflow as tf

    optimizers = model.optimizer.variables
    optimizers = optimizers() if callable(optimizers) else optimizers
    numeric = [each for each in (*model.variables, *optimizers) if each.dtype != tf.string]
    return [np.array(tf.convert_to_tensor(each)) for each in numeric]


def seeded(seed: int = 3) -> None:
    """The same random numbers from here on."""
    keras.utils.set_random_seed(seed)


def assert_same(ours: Any, theirs: Any, rtol: float = 0.0) -> None:
    """Nests of arrays are equal, bit for bit or nearly."""
    import tensorflow as tf

    flat, others = tf.nest.flatten(ours), tf.nest.flatten(theirs)
    assert len(flat) == len(others)
    for one, other in zip(map(np.asarray, flat), map(np.asarray, others), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def assert_history(ours: Any, theirs: Any, rtol: float = 2e-6) -> None:
    """The same names in the same order, and the same values, nearly."""
    assert list(ours) == list(theirs)
    # Keras 3 counts the losses of several outputs once a batch, however short the last one is.
    for name in set(theirs) - ({"p_loss", "q_loss"} if IS_KERAS_3 else set()):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=rtol, err_msg=name)


def even_arrays(**more: Any) -> dict[str, Any]:
    """Arrays of whole batches alone, for which Keras traces its steps once."""
    given: dict[str, Any] = {"x": X, "y": Y, **more}
    shorter = {key: given[key][: 3 * BATCH] for key in ("x", "y", "sample_weight") if key in given}
    return arrays(**{**more, **shorter})
