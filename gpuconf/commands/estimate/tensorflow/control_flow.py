"""Conditions, loops and calls in a graph: which function the walk enters, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuconf.commands.estimate.tensorflow import operations
from gpuconf.commands.estimate.tensorflow.memory import static_value
from gpuconf.support.keras_api import graphs

_COMPARISONS = {"Less": 0, "LessEqual": 1}  # extra iterations of each
_MOST_TURNS = 10_000  # the limit, because each iteration's operations are kept


def function_graph(operation: Any, attribute: str) -> Any:
    """The graph of the function that an attribute of the operation names."""
    return _graph_named(operation, operation.get_attr(attribute).name)


def functions_of(operation: Any) -> dict[str, Any]:
    """The graphs of all functions that a condition, a loop or a call names, by name."""
    names = []
    if operation.type in operations.CALLS:
        names = [operation.get_attr("f").name]
    elif operation.type in operations.LOOPS:
        names = [operation.get_attr(each).name for each in ("cond", "body")]
    elif operation.type in operations.BRANCHES:
        names = _branches(operation)
    return {name: _graph_named(operation, name) for name in names}


def heaviest_branch(operation: Any) -> Any:
    """The graph of the branch with the most operations; assumes that weights are updated."""
    branches = [_graph_named(operation, name) for name in _branches(operation)]
    return max(branches, key=lambda graph: len(graph.get_operations()))


def _branches(operation: Any) -> list[str]:
    if "branches" in operation.node_def.attr:  # Case
        return [function.name for function in operation.get_attr("branches")]
    return [operation.get_attr(name).name for name in ("then_branch", "else_branch")]


def _graph_named(operation: Any, name: str) -> Any:
    """A function's graph; a resized graph holds those that depend on the batch size."""
    graph = operation.graph
    resized = getattr(graph, "functions", {})
    if name in resized:
        return resized[name]
    return graphs.function_graph(getattr(graph, "traced", graph), name)


def number_of_turns(operation: Any, turns: Mapping[int, int]) -> int | None:
    """The iterations of a ``While``, if its condition compares with a known number; else None.

    ``turns`` holds the iterations of earlier loops: the gradient's loop runs as often as the
    forward loop.
    """
    condition = function_graph(operation, "cond")
    outer = dict(zip(map(id, condition.inputs), operation.inputs, strict=True))
    found = []
    for compared in condition.get_operations():
        if compared.type in _COMPARISONS:
            bound = compared.inputs[1]
            known = _number(outer.get(id(bound), bound), turns)
            if known is not None:
                found.append(known + _COMPARISONS[compared.type])
    return min(found, default=None)


def _number(tensor: Any, turns: Mapping[int, int]) -> int | None:
    if id(tensor) in turns:
        return turns[id(tensor)]
    if not tensor.dtype.is_integer or tensor.shape.rank != 0:
        return None  # a threshold, not a count
    value = static_value(tensor)
    return None if value is None or not 0 <= int(value) <= _MOST_TURNS else int(value)
