"""TensorFlow 1 sessions: the methods that every run goes through, and what a run trains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from gpuconf.errors import BackendError
from gpuconf.support.keras_api.graphs import function_graph

Kind = Literal["training", "call", "other"]
# Every ``run`` ends in this method: (self, handle, targets, fetches, feeds, …), flat lists of
# operations and tensors, and a dictionary of arrays.
RUN = "_do_run"
# ``make_callable`` without a list of feeds, and the version that Keras uses for its functions.
CALLABLE, CALLABLE_FROM_OPTIONS = "make_callable", "_make_callable_from_options"

_APPLIES = re.compile("(Resource)?(Sparse)?Apply[A-Z]|AccumulatorApplyGradient")
_ASSIGNS = re.compile("(Resource)?(Scatter|Assign)[A-Z]?")
_VARIABLES = frozenset(("Variable", "VariableV2", "VarHandleOp"))
_DATA = re.compile("Placeholder$|IteratorGetNext|QueueDequeue")
_CALLS = frozenset(
    ("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf")
)
_MOST_NAMES = 2
_GRADIENTS = re.compile("(^|/)gradient(s|_tape)(_[0-9]+)?/")


class SessionRun(NamedTuple):
    """The purpose of a run: its kind, a name for display, and the operations that identify it."""

    kind: Kind
    what: str
    operations: frozenset[str]


def session_class() -> Any:
    """The class with the methods above; None if this TensorFlow has none."""
    try:
        from tensorflow.python.client import session
    except ImportError:
        return None
    return session.BaseSession


def monitored_class() -> Any:
    """The class behind ``MonitoredSession``; None if this TensorFlow has none."""
    import tensorflow as tf

    public = getattr(tf.compat.v1.train, "MonitoredSession", None)
    return None if public is None else public.__mro__[1]


def elements_of(graph: Any, fetches: Any) -> list[Any]:
    """The tensors and operations that a run fetches, given as names, elements, or nests of them."""
    import tensorflow as tf

    flat = tf.nest.flatten(fetches, expand_composites=True)
    return [graph.as_graph_element(each) for each in flat]


def run_of(elements: Iterable[Any]) -> SessionRun:
    """Classify a run that fetches these elements.

    Training applies a TensorFlow optimizer, or assigns values computed from gradients.  A call
    computes from variables and data, for example a loss or a prediction.  Any other run only reads
    data, or reads or sets variables.
    """
    elements = list(elements)
    needed = list(_needed(getattr(each, "op", each) for each in elements))
    applied = [each for each in needed if _APPLIES.match(each.type)] or _assigned(needed)
    if applied:
        names = sorted(each.name for each in applied)
        return SessionRun("training", names[0].partition("/")[0], frozenset(names))
    names = [each.name.partition(":")[0] for each in elements]
    has_variables = any(each.type in _VARIABLES for each in needed)
    has_data = any(_DATA.match(each.type) for each in needed)
    kind: Kind = "call" if has_variables and has_data else "other"
    return SessionRun(kind, ", ".join(names[:_MOST_NAMES]), frozenset(names))


def is_training(elements: Iterable[Any]) -> bool:
    """Whether running these elements counts as a training step."""
    return run_of(elements).kind == "training"


def _assigned(needed: Iterable[Any]) -> list[Any]:
    """The assignments of values that depend on gradients."""
    found = [each for each in needed if _ASSIGNS.match(each.type)]
    return [
        each
        for each in found
        if any(_GRADIENTS.search(op.name) for op in _needed(v.op for v in list(each.inputs)[1:]))
    ]


def _needed(operations: Iterable[Any]) -> Iterable[Any]:
    """These operations and all their dependencies, including those in functions that they call."""
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
    """The operations in the functions that this operation calls, if they are visible."""
    found: list[Any] = []
    if operation.type in _CALLS:
        for attribute in operation.node_def.attr.values():
            with suppress(KeyError, AttributeError, BackendError):
                if attribute.func.name:
                    graph = function_graph(operation.graph, attribute.func.name)
                    found += graph.get_operations()
    return found
