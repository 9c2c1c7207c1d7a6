"""Conditions, loops and calls in a graph: which function is walked, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuconf.footprint.tensorflow import operations
from gpuconf.footprint.tensorflow.memory import static_value
from gpuconf.keras_api import graphs

_COMPARISONS = {"Less": 0, "LessEqual": 1}  # and how many turns more the second takes
_MOST_TURNS = 10_000  # more are not walked: each turn's operations are kept


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
    """The graph of the branch with the most operations: weights are updated, not left alone."""
    branches = [_graph_named(operation, name) for name in _branches(operation)]
    return max(branches, key=lambda graph: len(graph.get_operations()))


def _branches(operation: Any) -> list[str]:
    if "branches" in operation.node_def.attr:  # Case
        return [function.name for function in operation.get_attr("branches")]
    return [operation.get_attr(name).name for name in ("then_branch", "else_branch")]


def _graph_named(operation: Any, name: str) -> Any:
    """That of a function; a resized graph has those that depend on the batch size."""
    graph = operation.graph
    resized = getattr(graph, "functions", {})
    if name in resized:
        return resized[name]
    return graphs.function_graph(getattr(graph, "traced", graph), name)


def number_of_turns(operation: Any, turns: Mapping[int, int]) -> int | None:
    """How often a ``While`` turns, where its condition compares with a number that is known.

    ``turns`` are those of loops before it: the loop of the gradients counts as far as the first
    one did.
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
