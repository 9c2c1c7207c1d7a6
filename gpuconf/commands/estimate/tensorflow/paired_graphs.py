"""Compare two traces of a step, operation by operation, to find what depends on the batch size.

The two traces determine the sizes at any other batch size, except in doubtful cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from gpuconf.commands.estimate.tensorflow.control_flow import functions_of


class DoubtError(Exception):
    """The two traces do not determine the sizes at another batch size."""


class BatchSizes(NamedTuple):
    """The batch sizes of the two traces, and the ``wanted`` one."""

    one: int
    other: int
    wanted: int

    def size(self, small: Any, large: Any) -> Any:
        """Scale a size that is ``small`` and ``large`` in the traces in proportion to the batch.

        Raises DoubtError if it is not proportional, and for a new size of 1, which code may treat
        differently because it is broadcast.
        """
        if small == large or self.wanted == self.other:
            return large
        if small is None or large is None or small * self.other != large * self.one:
            raise DoubtError(f"{small} and {large} are not in proportion to the batch")
        found, rest = divmod(small * self.wanted, self.one)
        if rest or found <= 1:
            raise DoubtError(f"{small} at another batch")
        return found

    def value(self, small: Any, large: Any) -> Any:
        """Scale a constant array that is ``small`` and ``large``; DoubtError as in `size`."""
        import numpy as np

        if self.wanted == self.other or np.array_equal(small, large):
            return large
        if small.ndim != large.ndim or small.dtype.kind not in "iuf":
            raise DoubtError("a constant is of another kind at each batch")
        if small.shape == large.shape:
            sizes = [self.size(*pair) for pair in zip(small.flat, large.flat, strict=True)]
            return np.array(sizes, small.dtype).reshape(small.shape)
        if np.any(small != large.flat[0]) or np.any(large != large.flat[0]):
            raise DoubtError("a constant of several numbers is of another shape at each batch")
        shape = [self.size(*pair) for pair in zip(small.shape, large.shape, strict=True)]
        return np.full(shape, large.flat[0])


class PairedGraphs:
    """Two traces of a step that differ only in sizes; raises DoubtError if they differ otherwise.

    The operations of ``graph`` that are numbered in ``left_out`` are missing from ``other``.  They
    do not depend on the batch size because their inputs do not.
    """

    def __init__(self, graph: Any, other: Any, left_out: Iterable[range] = ()) -> None:
        self.graph = graph
        self.functions: dict[str, PairedGraphs] = {}
        self._twins: dict[int, Any] = {}
        missing = {number for numbers in left_out for number in numbers}
        alone = [each for n, each in enumerate(graph.get_operations()) if n in missing]
        common = [each for n, each in enumerate(graph.get_operations()) if n not in missing]
        self._pair(common, other.get_operations())
        _check(self._are_of_no_batch(each) for each in alone)

    def twin(self, operation: Any) -> Any | None:
        """The same operation in the other trace; None if it was left out."""
        return self._twins.get(id(operation))

    def _pair(self, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
        _check([len(ours) == len(theirs)])
        for one, other in zip(ours, theirs, strict=True):
            _check(self._are_alike(one, other))
            self._twins[id(one)] = other
            for (name, own), its in zip(
                functions_of(one).items(), functions_of(other).values(), strict=True
            ):
                if name not in self.functions:
                    self.functions[name] = PairedGraphs(own, its)

    def _are_alike(self, one: Any, other: Any) -> Iterator[bool]:
        yield one.type == other.type
        inputs, others = one.inputs, other.inputs
        yield len(inputs) == len(others)
        for tensor, its in zip(inputs, others, strict=True):
            yield self._twins.get(id(tensor.op)) is its.op
            yield tensor.value_index == its.value_index

    def _are_of_no_batch(self, operation: Any) -> bool:
        for tensor in operation.inputs:
            twin = self.twin(tensor.op)
            its = tensor if twin is None else twin.outputs[tensor.value_index]
            if its is not tensor and sizes_of(its) != sizes_of(tensor):
                return False
        return True


def sizes_of(tensor: Any) -> list[int | None] | None:
    """The dimensions, or None if the rank is unknown."""
    shape = tensor.shape
    return None if shape.rank is None else list(shape.as_list())


def _check(conditions: Iterable[bool]) -> None:
    if not all(conditions):
        raise DoubtError("the two traces differ in more than sizes")
