"""Random inputs and targets of models, from descriptions such as ``uniform 28 28 1``.

A description is the kind of numbers, for some kinds their upper bound, and the shape of one sample:

- ``uniform SHAPE`` between 0 and 1, and ``normal SHAPE``, float32: images, series, rows.
- ``words BOUND SHAPE`` from 1, int32: sentences, users, items.
- ``classes BOUND [SHAPE]`` from 0, int64; ``flags``, one number that is 0 or 1, float32.

Targets can also follow from the first input: ``same``, ``bright`` (whether a pixel is) and ``sum``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Batches(NamedTuple):
    """The data for ``fit``: inputs and targets, one array or several of each."""

    inputs: Any
    targets: Any


_FROM_INPUT: dict[str, Callable[[Array], Array]] = {
    "same": lambda x: x,
    "bright": lambda x: (x.mean(-1, keepdims=True) > 0.5).astype(np.float32),
    "sum": lambda x: x.sum(1, keepdims=True),
}


def draw(
    inputs: Sequence[str], targets: Sequence[str], random: np.random.Generator, count: int
) -> Batches:
    """``count`` samples as described."""
    x = [_draw(description, random, count) for description in inputs]
    y = [
        _FROM_INPUT[each](x[0]) if each in _FROM_INPUT else _draw(each, random, count)
        for each in targets
    ]
    return Batches(x if len(x) > 1 else x[0], y if len(y) > 1 else y[0])


def _draw(description: str, random: np.random.Generator, count: int) -> Array:
    kind, *words = description.split()
    numbers = [int(word) for word in words]
    if kind == "uniform":
        return random.random((count, *numbers), dtype=np.float32)
    if kind == "normal":
        return random.standard_normal((count, *numbers), dtype=np.float32)
    if kind == "flags":
        return random.integers(0, 2, (count, 1)).astype(np.float32)
    bound, *shape = numbers
    if kind == "words":
        return random.integers(1, bound, (count, *shape)).astype(np.int32)
    if kind == "classes":
        return random.integers(0, bound, (count, *shape))
    raise ValueError(f"expected uniform, normal, words, classes or flags; got {description!r}")


def pad(sentences: Array, random: np.random.Generator) -> None:
    """End each sentence after a random number of words; the rest is 0."""
    longest = sentences.shape[1]
    for row, length in zip(sentences, random.integers(1, longest + 1, len(sentences)), strict=True):
        row[length:] = 0
