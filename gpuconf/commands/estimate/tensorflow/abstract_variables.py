"""TensorFlow variables with a shape and dtype but no memory, to get a model's sizes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuconf.support.keras_api.graphs import variable_without_memory
from gpuconf.support.keras_api.variables import initialized_by


@contextmanager
def abstract_variables() -> Iterator[None]:
    """Create every ``tf.Variable`` in this block, by any Keras, without memory until assigned.

    Initial values are not computed, so building a multi-gigabyte network takes no longer than
    running its Python code. Scalars such as a learning rate are real because optimizers read them.
    Reading any other variable outside of a traced function raises an error or returns an empty
    array.

    Keras variables on another backend still take up memory.
    """
    if _is_keras_elsewhere():
        yield
        return
    import tensorflow as tf

    with tf.variable_creator_scope(_without_memory):
        yield


def _is_keras_elsewhere() -> bool:
    keras: Any = sys.modules.get("keras")
    return hasattr(keras, "StatelessScope") and keras.backend.backend() != "tensorflow"


def _without_memory(next_creator: Any, **options: Any) -> Any:
    import tensorflow as tf

    shape, dtype = _shape_and_dtype(options)
    is_known = shape is not None and shape.is_fully_defined()
    if not is_known or shape.num_elements() <= 1 or tf.as_dtype(dtype) == tf.string:
        return next_creator(**options)
    names = ("trainable", "name", "synchronization", "aggregation")
    given = {name: options.get(name) for name in names}
    made = variable_without_memory(shape=shape, dtype=tf.as_dtype(dtype), **given)
    return next_creator(**options) if made is None else made


def _shape_and_dtype(options: dict[str, Any]) -> tuple[Any, Any]:
    """The shape and dtype, from the options if possible, else from the initial value in a graph."""
    import tensorflow as tf

    shape, dtype, value = (options.get(name) for name in ("shape", "dtype", "initial_value"))
    if shape is not None and dtype is not None:
        return tf.TensorShape(shape), dtype
    if callable(value) and dtype is not None and (owner := initialized_by(value)) is not None:
        return tf.TensorShape(owner.shape), dtype
    if callable(value):
        with tf.Graph().as_default():
            value = value()
            return tf.TensorShape(value.shape), dtype or value.dtype
    value = tf.TensorSpec.from_tensor(tf.convert_to_tensor(value, dtype=dtype))
    return tf.TensorShape(shape or value.shape), value.dtype
