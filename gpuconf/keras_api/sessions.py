"""TensorFlow 1's sessions: where every run of one comes by, and what of a graph a run trains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from gpuconf.errors import BackendError
from gpuconf.keras_api.graphs import function_graph

# What every ``run`` ends in: (self, handle, targets, fetches, feeds, …), flat lists of operations
# and tensors, and a dictionary of arrays.
RUN = "_do_run"
# ``make_callable`` without a list of feeds, and what Keras makes of its functions.
CALLABLE, CALLABLE_FROM_OPTIONS = "make_callable", "_make_callable_from_options"

_APPLIES = re.compile("(Resource)?(Sparse)?Apply[A-Z]|AccumulatorApplyGradient")
_ASSIGNS = re.compile("(Resource)?(Scatter|Assign)[A-Z]?")
_CALLS = frozenset(
    ("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf")
)
_GRADIENTS = re.compile("(^|/)gradient(s|_tape)(_[0-9]+)?/")


def session_class() -> Any:
    """The class with the methods above; None where this TensorFlow has none."""
    try:
        from tensorflow.python.client import session
    except ImportError:
        return None
    return session.BaseSession


def elements_of(graph: Any, fetches: Any) -> list[Any]:
    """The tensors and operations that a run fetches: names or elements, nests of them."""
    import tensorflow as tf

    flat = tf.nest.flatten(fetches, expand_composites=True)
    return [graph.as_graph_element(each) for each in flat]


def is_training(elements: Iterable[Any]) -> bool:
    """Whether to run them applies an optimizer: TensorFlow's own, or assignments of gradients."""
    assignments = []
    for operation in _needed(getattr(each, "op", each) for each in elements):
        if _APPLIES.match(operation.type):
            return True
        if _ASSIGNS.match(operation.type):
            assignments.append(operation)
    values = [value.op for each in assignments for value in list(each.inputs)[1:]]
    return any(_GRADIENTS.search(each.name) for each in _needed(values))


def _needed(operations: Iterable[Any]) -> Iterable[Any]:
    """These operations and all that must run before them, also in functions that they call."""
    waiting, seen = list(operations), set[Any]()
    while waiting:
        operation = waiting.pop()
        if operation in seen:
            continue
        seen.add(operation)
        yield operation
        waiting += (each.op for each in operation.inputs)
        waiting += operation.control_inputs
        waiting += _within(operation)


def _within(operation: Any) -> Iterable[Any]:
    """The operations of the functions that this one calls, where they can be seen."""
    found: list[Any] = []
    if operation.type in _CALLS:
        for attribute in operation.node_def.attr.values():
            with suppress(KeyError, AttributeError, BackendError):
                if attribute.func.name:
                    graph = function_graph(operation.graph, attribute.func.name)
                    found += graph.get_operations()
    return found
