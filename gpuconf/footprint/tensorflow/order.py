"""In which order TensorFlow's executor runs a graph's operations.

An operation is ready when its inputs and those before it by control are done.  On a GPU, where
every operation is only launched, there is one queue: what becomes ready is put at its end
(``ScheduleReady`` in ``tensorflow/core/common_runtime/executor.cc``).  So two towers are computed
side by side, and a weight is updated during the backward pass, as soon as its gradient is there.
What becomes ready at once runs in the graph's order, which the graph optimizer has sorted in the
same way before (``ComputeTopologicalOrder`` in ``topological_sort.cc``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuconf.footprint.tensorflow.rewriting import Rewritten

_SORTS = 2  # the optimizer's, and the executor's


def executed(rewritten: Rewritten) -> list[Any]:
    """The operations that are left, in the order in which they run."""
    order: Sequence[Any] = rewritten.operations
    for _ in range(_SORTS):
        order = _breadth_first(order, rewritten)
    return list(order)


def _breadth_first(operations: Sequence[Any], rewritten: Rewritten) -> list[Any]:
    """First what waits for nothing, then what becomes ready, each in the order given."""
    waits: dict[int, int] = {}
    after: dict[int, list[Any]] = {id(operation): [] for operation in operations}
    for operation in operations:
        before = {id(tensor.op) for tensor in rewritten.inputs(operation)}
        before |= {id(other) for other in operation.control_inputs if id(other) in after}
        waits[id(operation)] = len(before)
        for other in before:
            after[other].append(operation)
    order = [operation for operation in operations if not waits[id(operation)]]
    for operation in order:  # which grows meanwhile
        for other in after[id(operation)]:
            waits[id(other)] -= 1
            if not waits[id(other)]:
                order.append(other)
    return order
