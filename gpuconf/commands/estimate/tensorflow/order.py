"""The order in which TensorFlow's executor runs a graph's operations.

An operation is ready when its inputs and control dependencies are done.  On a GPU, where the
executor only launches operations, there is one queue, and ready operations go to its end
(``ScheduleReady`` in ``tensorflow/core/common_runtime/executor.cc``).  So two towers are computed
side by side, and a weight is updated during the backward pass, as soon as its gradient is ready.
Operations that become ready together run in the graph's order, which the graph optimizer has
already sorted in the same way (``ComputeTopologicalOrder`` in ``topological_sort.cc``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuconf.commands.estimate.tensorflow.rewriting import Rewritten

_SORTS = 2  # the optimizer's, and the executor's


def executed(rewritten: Rewritten) -> list[Any]:
    """The remaining operations, in the order in which they run."""
    order: Sequence[Any] = rewritten.operations
    for _ in range(_SORTS):
        order = _breadth_first(order, rewritten)
    return list(order)


def _breadth_first(operations: Sequence[Any], rewritten: Rewritten) -> list[Any]:
    """Operations without dependencies first, then each as it becomes ready, in the given order."""
    waits: dict[int, int] = {}
    after: dict[int, list[Any]] = {id(operation): [] for operation in operations}
    for operation in operations:
        before = {id(tensor.op) for tensor in rewritten.inputs(operation)}
        before |= {id(other) for other in operation.control_inputs if id(other) in after}
        waits[id(operation)] = len(before)
        for other in before:
            after[other].append(operation)
    order = [operation for operation in operations if not waits[id(operation)]]
    for operation in order:  # grows during the loop
        for other in after[id(operation)]:
            waits[id(other)] -= 1
            if not waits[id(other)]:
                order.append(other)
    return order
