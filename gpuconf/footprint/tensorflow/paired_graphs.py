"""Two traces of one step, operation by operation: what depends on the batch size, and how.

From them follow the sizes at any other batch, unless that is in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from gpuconf.footprint.tensorflow.control_flow import functions_of


class DoubtError(Exception):
    """The sizes at another batch do not follow from the two traces."""


class BatchSizes(NamedTuple):
    """Those of the two traces, and that which is ``wanted``."""

    one: int
    other: int
    wanted: int

    def size(self, small: Any, large: Any) -> Any:
        """The size that is ``small`` and ``large`` in the traces: in proportion to the batch.

        Raises DoubtError for another one, and for a new 1, since code looks at those:
        they are broadcast.
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
        """The constant that is ``small`` and ``large``, as arrays; DoubtError as in `size`."""
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
    """Two traces of a step, which must differ in sizes alone; else DoubtError is raised.

    The operations of ``graph`` that are numbered in ``left_out`` are not in the ``other`` one, and
    do not depend on the batch, since what they are computed from does not.
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
        """The same operation of the other trace; None where that was left out."""
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
    """The dimensions, None where there is no knowing even how many."""
    shape = tensor.shape
    return None if shape.rank is None else list(shape.as_list())


def _check(conditions: Iterable[bool]) -> None:
    if not all(conditions):
        raise DoubtError("the two traces differ in more than sizes")
