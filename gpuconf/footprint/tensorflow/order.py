"""In which order TensorFlow's executor runs a graph's operations.

An operation is ready when its inputs and those before it by control are done.  Source:
``tensorflow/core/common_runtime/executor.cc`` (``ScheduleReady``).  On a GPU, where every operation
is only launched, one without inputs begins a queue, and what becomes ready behind it is put at its
end.  So what needs no data is computed first of all; and a weight is updated during the backward
pass, as soon as its gradient is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any


def source(tensor: Any) -> Any:
    """The tensor behind an ``IdentityN``: grappler takes these out, so nothing waits for all."""
    while tensor.op.type == "IdentityN":
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor


def executed(graph: Any, data: Iterable[Any] = ()) -> list[Any]:
    """The operations that are needed, in the order in which they run; ``data`` begin last."""
    needed = _needed(graph)
    waits: dict[int, int] = {}
    after: dict[int, list[Any]] = {id(operation): [] for operation in needed}
    for operation in needed:
        before = {id(source(tensor).op) for tensor in operation.inputs}
        before |= {id(other) for other in operation.control_inputs}
        waits[id(operation)] = len(before)
        for other in before:
            after[other].append(operation)

    late = {id(tensor.op) for tensor in data}
    roots = [operation for operation in needed if not waits[id(operation)]]
    roots.sort(key=lambda operation: id(operation) in late)
    order = []
    for root in roots:
        queue = deque([root])
        while queue:
            order.append(queue.popleft())
            for other in after[id(order[-1])]:
                waits[id(other)] -= 1
                if not waits[id(other)]:
                    queue.append(other)
    return order


def _needed(graph: Any) -> list[Any]:
    """The operations that the results and the side effects of a graph need, as they were made."""
    wanted: set[int] = set()
    left = [source(tensor).op for tensor in graph.outputs] + list(graph.control_outputs)
    while left:
        operation = left.pop()
        if id(operation) not in wanted:
            wanted.add(id(operation))
            left += [source(tensor).op for tensor in operation.inputs]
            left += operation.control_inputs
    return [operation for operation in graph.get_operations() if id(operation) in wanted]
