"""Batches in Keras's formats: tuples, lists and dicts of arrays, cut and counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any


def mapped(change: Callable[..., Any], nest: Any, *alike: Any) -> Any:
    """Apply ``change`` to the leaves of nests with the same structure.

    None stays None, a list of numbers is one leaf, and a defaultdict keeps its factory.
    """
    if nest is None:
        return None
    if isinstance(nest, dict):
        parts = ((key, part, *(each[key] for each in alike)) for key, part in nest.items())
        changed = ((key, mapped(change, *part)) for key, *part in parts)
        if isinstance(nest, defaultdict):
            return type(nest)(nest.default_factory, changed)
        return type(nest)(changed)
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*(mapped(change, *parts) for parts in zip(nest, *alike, strict=True)))
    if isinstance(nest, (tuple, list)) and not is_written_out(nest):
        return type(nest)(mapped(change, *parts) for parts in zip(nest, *alike, strict=True))
    return change(nest, *alike)


def is_written_out(part: Any) -> bool:
    """Whether a list is one array, such as a list of numbers or strings, not a list of arrays."""
    first = part[0] if isinstance(part, list) and part else None
    while isinstance(first, list) and first:
        first = first[0]
    return isinstance(first, (int, float, str, bytes))


def leaves(nest: Any) -> list[Any]:
    """The leaves, in order, without None."""
    found: list[Any] = []
    mapped(found.append, nest)
    return found


def refilled(nest: Any, flat: list[Any]) -> Any:
    """The same nest with different leaves, in the order of `leaves`."""
    left = iter(flat)
    return mapped(lambda _: next(left), nest)


def count(nest: Any) -> int:
    """The number of samples: the length of the first leaf."""
    first = leaves(nest)[0]
    return len(first) if isinstance(first, list) else int(first.shape[0])


def part(nest: Any, start: int, end: int) -> Any:
    """Samples from ``start`` to ``end``; each leaf stays on its device."""
    if start == 0 and end >= count(nest):
        return nest
    return mapped(lambda leaf: _rows(leaf, start, end), nest)


def joined(parts: list[Any]) -> Any:
    """Join several nests into one by concatenating their leaves as arrays."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    return mapped(lambda *pieces: np.concatenate(pieces), *parts)


def on_host(leaf: Any) -> Any:
    """Copy a TensorFlow, JAX or PyTorch array to host RAM."""
    import numpy as np

    if hasattr(leaf, "detach"):
        return leaf.detach().cpu().numpy()
    return np.asarray(leaf)


def computed(nest: Any) -> Any:
    """Wait until JAX has computed the arrays, because errors are raised only then."""
    for leaf in leaves(nest):
        getattr(leaf, "block_until_ready", lambda: None)()
    return nest


def _rows(leaf: Any, start: int, end: int) -> Any:
    if getattr(leaf, "shape", None) is not None and len(leaf.shape) == 0:
        return leaf  # a scalar belongs to every part
    if hasattr(leaf, "row_splits") or not type(leaf).__module__.startswith("tensorflow"):
        return leaf[start:end]
    import tensorflow as tf

    if isinstance(leaf, tf.SparseTensor):
        first = [start] + [0] * (len(leaf.shape) - 1)
        return tf.sparse.slice(leaf, first, [end - start, *leaf.shape[1:]])
    with tf.device(leaf.device):  # otherwise all of it would be copied to the GPU first
        return leaf[start:end]
