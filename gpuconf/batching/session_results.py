"""What ``session.run`` gave for one batch after another, put together by tensor."""

from __future__ import annotations

from typing import Any

from gpuconf.errors import UsageError

_WAYS = ("mean", "sum", "last")


class SessionResults:
    """Rows are joined, scalars reduced, operations give None."""

    def __init__(self, graph: Any, tensors: Any, reduce: Any, samples: int) -> None:
        import tensorflow as tf

        self._nest = tensors
        flat = tf.nest.flatten(tensors)
        self.fetches = [_fetched(graph, each) for each in flat]
        self.names = tuple(each.name for each in self.fetches)
        self._ways = [
            _way(reduce, given, each) for given, each in zip(flat, self.fetches, strict=True)
        ]
        self._samples = samples
        self._filled = 0
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

        return tf.nest.pack_sequence_as(self._nest, self._totals)

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
        if self._ways[number] == "last" or (total is None and self._ways[number] == "sum"):
            return array[()]
        if self._ways[number] == "sum":
            return total + array
        seen = self._filled
        if total is None:
            return array[()]
        # A mean that moves: exact for equal values, and without large sums.
        return (total * (seen / (seen + size)) + array * (size / (seen + size))).astype(array.dtype)


def _fetched(graph: Any, fetch: Any) -> Any:
    if isinstance(fetch, str):
        return graph.as_graph_element(fetch)
    return fetch


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
