"""A few ``keras.ops`` operations, for models on any backend and from any Keras version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpuconf.support.keras_api.families import family_on_any_backend


def operations(model: Any) -> Any:
    """``cast``, ``sum``, ``reshape``, ``shape``, ``divide_no_nan`` and ``convert_to_tensor``.

    On TensorFlow they are TensorFlow's own, which also work with Keras 2.
    """
    family = family_on_any_backend(model)
    if family.backend != "tensorflow":
        return family.keras.ops
    import tensorflow as tf

    return SimpleNamespace(
        cast=tf.cast,
        sum=tf.reduce_sum,
        reshape=tf.reshape,
        shape=tf.shape,
        divide_no_nan=tf.math.divide_no_nan,
        convert_to_tensor=tf.convert_to_tensor,
    )
