"""Functional control flow: the functions that an operation names, and how often a loop turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuconf.keras_api import graphs

_COMPARISONS = {"Less": 0, "LessEqual": 1}  # and how many turns more the second takes
_MOST_TURNS = 10_000  # more are not walked: each turn's operations are kept


def function_graph(operation: Any, attribute: str) -> Any:
    """The graph of the function that an attribute of the operation names."""
    return graphs.function_graph(operation.graph, operation.get_attr(attribute).name)


def heaviest_branch(operation: Any) -> Any:
    """The graph of the branch with the most operations: weights are updated, not left alone."""
    if _has(operation, "branches"):  # Case
        functions = operation.get_attr("branches")
    else:
        functions = [operation.get_attr(name) for name in ("then_branch", "else_branch")]
    branches = [graphs.function_graph(operation.graph, function.name) for function in functions]
    return max(branches, key=lambda graph: len(graph.get_operations()))


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
    import tensorflow as tf

    if id(tensor) in turns:
        return turns[id(tensor)]
    if not tensor.dtype.is_integer or tensor.shape.rank != 0:
        return None  # a threshold, not a count
    value = tf.get_static_value(tensor)
    return None if value is None or not 0 <= int(value) <= _MOST_TURNS else int(value)


def _has(operation: Any, attribute: str) -> bool:
    return attribute in operation.node_def.attr
