"""What ``session.run`` gave for one batch after another, put together by tensor."""

from __future__ import annotations

from typing import Any

from gpuconf.errors import UsageError
from gpuconf.terminal import say

_WAYS = ("mean", "sum", "last")


class SessionResults:
    """Rows are joined, scalars reduced, operations give None."""

    def __init__(self, graph: Any, tensors: Any, reduce: Any, samples: int) -> None:
        import tensorflow as tf

        self._nest = tensors
        flat = tf.nest.flatten(tensors)
        self.fetches = [fetched(graph, each) for each in flat]
        self.names = tuple(each.name for each in self.fetches)
        self._ways = [
            _way(reduce, given, each) for given, each in zip(flat, self.fetches, strict=True)
        ]
        _check_keys(reduce, flat, self.names)
        self._samples = samples
        self._filled = 0
        self._summed_up: dict[int, Any] = {}  # means, and their types
        self._totals: list[Any] = [None] * len(self.fetches)

    def add(self, found: list[Any], size: int) -> None:
        """Take in what one batch of this size gave."""
        import numpy as np

        for number, value in enumerate(found):
            if value is None:
                continue
            array = np.asarray(value)
            if self._has_rows(number, array, size):
                if self._totals[number] is None:
                    shape = (self._samples, *array.shape[1:])
                    self._totals[number] = np.empty(shape, array.dtype)
                self._totals[number][self._filled : self._filled + size] = array
            else:
                self._totals[number] = self._reduced(number, array, size)
        self._filled += size

    def result(self) -> Any:
        """All of it, nested as the tensors were."""
        import tensorflow as tf

        ended = [self._ended(number) for number in range(len(self.fetches))]
        return tf.nest.pack_sequence_as(self._nest, ended)

    def _ended(self, number: int) -> Any:
        """A mean is a sum until now; of whole numbers it is a float."""
        total = self._totals[number]
        if total is None or number not in self._summed_up:
            return total
        mean, dtype = total / self._filled, self._summed_up[number]
        return mean.astype(dtype) if dtype.kind == "f" else mean

    def _has_rows(self, number: int, array: Any, size: int) -> bool:
        shape = self.fetches[number].shape
        if shape.rank is None:
            return bool(array.ndim and len(array) == size)
        is_open = shape.rank > 0 and shape[0] is None
        if is_open and len(array) != size:
            raise UsageError(
                f"{self.names[number]} has {len(array)} rows for {size} samples, so that it "
                "cannot be joined",
                hint="fetch a tensor with a row for each sample, or a scalar",
            )
        return is_open

    def _reduced(self, number: int, array: Any, size: int) -> Any:
        """Of a scalar, or what has one shape whatever the batch."""
        total = self._totals[number]
        if self._ways[number] == "last":
            return array[()]
        if self._ways[number] == "sum":
            return array[()] if total is None else total + array
        if number not in self._summed_up and array.dtype.kind in "iu":
            say(
                f"session_evaluate: {self.names[number]} is a whole number, and the mean over the "
                f'samples is given; of a count: reduce={{"{self.names[number]}": "sum"}}'
            )
        self._summed_up[number] = array.dtype
        share = array.astype("float64") * size
        return share if total is None else total + share


def fetched(graph: Any, fetch: Any) -> Any:
    """The element of the graph that a name means; others are taken as they are."""
    if not isinstance(fetch, str):
        return fetch
    try:
        return graph.as_graph_element(fetch)
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"the graph has no {fetch}: {error.args[0]}",
            hint="print([each.name for each in session.graph.get_operations()])",
        ) from None


def _check_keys(reduce: Any, flat: list[Any], names: tuple[str, ...]) -> None:
    """A misspelt name would be a mean without a word."""
    for key in reduce if isinstance(reduce, dict) else ():
        if key not in names and not any(key is each for each in flat):
            raise UsageError(
                f"reduce names {key!r}, which is not among the tensors: {', '.join(names)}",
                hint=f'reduce={{"{names[0]}": "mean"}}',
            )


def _way(reduce: Any, given: Any, fetch: Any) -> str:
    way = reduce
    if isinstance(reduce, dict):
        way = next(
            (value for key, value in reduce.items() if key is given or key == fetch.name), "mean"
        )
    if way not in _WAYS:
        raise UsageError(
            f"reduce is {way!r}, and must be one of {', '.join(_WAYS)}", hint='reduce="mean"'
        )
    return str(way)
