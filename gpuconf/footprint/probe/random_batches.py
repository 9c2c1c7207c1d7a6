"""Random data in the shapes and types of a batch."""

from __future__ import annotations

from typing import Any, NamedTuple

_SEED = 20
# Whole numbers that any model takes, where nothing says what they count.
_SMALLEST = 2


class Bounds(NamedTuple):
    """Whole numbers of inputs and targets are below these."""

    inputs: int = _SMALLEST
    targets: int = _SMALLEST


def bounds_of(model: Any) -> Bounds:
    """What the model's embeddings can look up, and how many classes its outputs tell apart.

    How many different numbers there are matters: the gradient of an embedding has a row for each.
    """
    layers = model._flatten_layers()
    words = [layer.input_dim for layer in layers if _is_embedding(layer)]
    return Bounds(min(words, default=_SMALLEST), _classes(model))


def _is_embedding(layer: Any) -> bool:
    return type(layer).__name__.endswith("Embedding") and isinstance(
        getattr(layer, "input_dim", None), int
    )


def _classes(model: Any) -> int:
    """The smallest last dimension of its outputs; 1 means that there is one class, number 0."""
    import tensorflow as tf

    try:
        shapes = [tuple(output.shape) for output in tf.nest.flatten(model.outputs)]
    except (AttributeError, ValueError):  # a subclassed model has none
        return _SMALLEST
    return min((int(shape[-1]) for shape in shapes if shape and shape[-1]), default=_SMALLEST)


def arrays_like(specs: Any, bound: int) -> Any:
    """NumPy arrays for specs, in the same structure: floats from 0 to 1, whole numbers to bound."""
    import numpy as np
    import tensorflow as tf

    generator = np.random.default_rng(_SEED)

    def array(spec: Any) -> Any:
        shape, dtype = tuple(spec.shape), spec.dtype
        if dtype == tf.string:
            return np.full(shape, b"word", dtype=object)
        if dtype == tf.bool:
            return generator.random(shape) < 0.5
        if dtype.is_integer:
            return generator.integers(0, bound, shape).astype(dtype.as_numpy_dtype)
        return generator.random(shape, dtype=np.float32).astype(dtype.as_numpy_dtype)

    return tf.nest.map_structure(array, specs)
