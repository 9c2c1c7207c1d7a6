"""A traced graph, walked in the order of execution: who makes which memory, who uses it.

Of functional control flow, the heaviest branch is walked, and a loop as often as it turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuconf.footprint.step import CONSTANT
from gpuconf.footprint.tensorflow import lists, operations
from gpuconf.footprint.tensorflow.memory import (
    Buffer,
    Handle,
    Items,
    Ledger,
    Value,
    count_of,
    size_of,
)
from gpuconf.footprint.tensorflow.order import executed, source
from gpuconf.footprint.tensorflow.workspaces import workspace_bytes
from gpuconf.keras_api import graphs

_SMALLEST_CONSTANT_BYTES = 1024  # smaller ones are folded away, or on the host
_COMPARISONS = {"Less": 0, "LessEqual": 1}  # and how many turns more the second takes
_MOST_TURNS = 10_000  # more are not walked: each turn's operations are kept


class OperationPlace(NamedTuple):
    """An operation: its kind, and the name of that of the top graph in or under which it is."""

    name: str
    kind: str


class Walk:
    """The walk through a step's graph and the functions that it calls."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.places: list[OperationPlace] = []
        self.unknown: list[str] = []  # operations whose result's size nobody knows
        self.endless: list[str] = []  # loops whose number of turns nobody knows
        self.largest_sum_bytes = 0  # of three or more gradients
        self.turns: dict[int, int] = {}  # of loops, by the outputs' identities
        self.turn = 0  # of the loop that is being walked
        self._constants: dict[int, Buffer] = {}
        self._kept: list[Buffer] = []

    def kept(self, size_bytes: int, kind: str) -> Buffer:
        """Memory that is there for the whole step."""
        self._kept.append(Buffer(size_bytes, 0, 0, kind=kind, pinned=True))
        return self.ledger.add(self._kept[-1])

    def graph(
        self,
        graph: Any,
        values: Mapping[int, Value],
        *,
        data: Iterable[Any] = (),
        under: OperationPlace | None = None,
    ) -> dict[int, Value]:
        """Walk all operations that the outputs need; give what every tensor has become.

        ``data`` are the tensors of the batch.
        """
        known: dict[int, Value] = dict(values)
        for operation in executed(graph, data):
            if id(operation) not in known:
                self._operation(operation, known, under)
        return known

    def keep(self, values: Iterable[Value]) -> None:
        """What the step gives back stays to its end, and is nobody's to take."""
        for value in values:
            if isinstance(value, Buffer):
                value.pinned = True
                self._kept.append(value)
            elif isinstance(value, Items):
                self.keep(value.elements)

    def finish(self) -> int:
        """The number of positions; what stays for the whole step ends at the last one."""
        if not self.places:
            self.places.append(OperationPlace("step", "NoOp"))
        end = len(self.places) - 1
        for buffer in self._kept:
            buffer.last = end
        return end + 1

    def _operation(
        self, operation: Any, known: dict[int, Value], under: OperationPlace | None
    ) -> None:
        inputs = [known.get(id(source(tensor))) for tensor in operation.inputs]
        kind = operation.type
        place = _place(operation, under)
        if kind in operations.CALLS:
            outputs = self._body(_function_graph(operation, "f"), inputs, place)
        elif kind in operations.BRANCHES:
            outputs = self._body(_heaviest_branch(operation), inputs[1:], place)
        elif kind in operations.LOOPS:
            outputs = self._loop(operation, inputs, place)
        elif kind == "Placeholder" or kind in operations.ON_HOST:
            outputs = [known.get(id(tensor)) for tensor in operation.outputs]
        elif kind == "Const":
            outputs = [self._constant(operation)]
        elif kind in operations.ALIASES:
            outputs = inputs[: len(operation.outputs)]
        else:
            outputs = self._compute(operation, inputs, place)
        for tensor, value in zip(operation.outputs, outputs, strict=False):
            known[id(tensor)] = value

    def _compute(
        self, operation: Any, inputs: Sequence[Value], place: OperationPlace
    ) -> Sequence[Value]:
        now = len(self.places)
        self.places.append(place)
        for value in inputs:
            if isinstance(value, Buffer):
                value.use(now)
        if operation.type in lists.OPERATIONS:
            moment = lists.WalkMoment(self.ledger, self.turn, now)
            return lists.OPERATIONS[operation.type](moment, operation, inputs)
        if operation.type == "ReadVariableOp":
            return [self._read(operation, inputs[0], now)]
        if operation.type == "AssignVariableOp" or operations.updates_variable(operation.type):
            self._update(operation, inputs, now)
        for value in inputs:
            if isinstance(value, Items):
                value.use(now)
        self.ledger.workspace(workspace_bytes(operation), now)
        if operation.type == "AddN" and len(inputs) > 2:
            size = size_of(operation.outputs[0]) or 0
            self.largest_sum_bytes = max(self.largest_sum_bytes, size)
        return [
            self._result(operation, number, inputs, now) for number in range(len(operation.outputs))
        ]

    def _result(
        self, operation: Any, number: int, inputs: Sequence[Value], now: int
    ) -> Buffer | None:
        tensor = operation.outputs[number]
        size = 0 if number in operations.EMPTY.get(operation.type, ()) else size_of(tensor)
        if size is None:
            size = _reserved(operation, number)
        if size is None:
            size = self._unknown(operation, tensor)
        if not size:
            return None
        return self.ledger.new(tensor, size, now, takes_from=_takes_from(operation, number, inputs))

    def _unknown(self, operation: Any, tensor: Any) -> int:
        """A size that depends on the data is taken to be that of the largest input."""
        self.unknown.append(operation.name)
        counts = [count_of(each) or 0 for each in operation.inputs]
        return int(max(counts, default=0) * (tensor.dtype.size or 0))

    def _read(self, operation: Any, value: Value, now: int) -> Value:
        if not isinstance(value, Handle):
            return self._result(operation, 0, (), now)
        if value.is_sparse:
            return self.ledger.new(operation.outputs[0], value.variable.size_bytes, now)
        reader = Buffer(0, now, now, pinned=True)
        value.readers.append(reader)
        return reader

    def _update(self, operation: Any, inputs: Iterable[Value], now: int) -> None:
        for value in inputs:
            if isinstance(value, Handle):
                self.ledger.update(value, now)
                if operation.type.startswith(operations.SPARSE_PREFIXES):
                    value.is_sparse = True

    def _constant(self, operation: Any) -> Value:
        size = size_of(operation.outputs[0]) or 0
        if size < _SMALLEST_CONSTANT_BYTES:
            return None
        if id(operation) not in self._constants:
            self._constants[id(operation)] = self.kept(size, CONSTANT)
        return self._constants[id(operation)]

    def _body(self, graph: Any, inputs: Sequence[Value], place: OperationPlace) -> Sequence[Value]:
        arguments = {id(tensor): value for tensor, value in zip(graph.inputs, inputs, strict=True)}
        known = self.graph(graph, arguments, under=place)
        return [known.get(id(source(tensor))) for tensor in graph.outputs]

    def _loop(
        self, operation: Any, values: Sequence[Value], place: OperationPlace
    ) -> Sequence[Value]:
        body = _function_graph(operation, "body")
        turns = _number_of_turns(operation, self.turns)
        if turns is None:
            self.endless.append(operation.name)
            turns = 1
        self.turns.update({id(tensor): turns for tensor in operation.outputs[:1]})
        outer = self.turn
        for self.turn in range(turns):
            values = self._body(body, values, place)
        self.turn = outer
        return values


def _place(operation: Any, under: OperationPlace | None) -> OperationPlace:
    return OperationPlace(operation.name if under is None else under.name, operation.type)


def _reserved(operation: Any, number: int) -> int | None:
    """Bytes of what cuDNN's kernel for a recurrent layer keeps; None for other outputs."""
    place, times = operations.RESERVED.get(operation.type, (None, {}))
    if number != place:
        return None
    kept, many = size_of(operation.outputs[0]), times.get(operation.get_attr("rnn_mode").decode())
    return None if kept is None or many is None else kept * many


def _takes_from(operation: Any, number: int, inputs: Sequence[Value]) -> tuple[Buffer, ...]:
    into = operations.TAKES_INTO.get(operation.type, {})
    if number in into:
        candidates: Iterable[int] = into[number]
    elif number == 0 and operation.type in operations.TAKES:
        named = operations.TAKES[operation.type]
        candidates = range(len(inputs)) if named is None else named
    else:
        return ()
    tensor = operation.outputs[number]
    found = []
    for place in candidates:
        value = inputs[place]
        if isinstance(value, Buffer) and inputs.count(value) == 1:
            source = operation.inputs[place]
            if source.dtype.size == tensor.dtype.size and source.shape == tensor.shape:
                found.append(value)
    return tuple(found)


def _function_graph(operation: Any, attribute: str) -> Any:
    """The graph of the function that an attribute of the operation names."""
    return graphs.function_graph(operation.graph, operation.get_attr(attribute).name)


def _heaviest_branch(operation: Any) -> Any:
    """The graph of the branch with the most operations: weights are updated, not left alone."""
    if "branches" in operation.node_def.attr:  # Case
        functions = operation.get_attr("branches")
    else:
        functions = [operation.get_attr(name) for name in ("then_branch", "else_branch")]
    branches = [graphs.function_graph(operation.graph, function.name) for function in functions]
    return max(branches, key=lambda graph: len(graph.get_operations()))


def _number_of_turns(operation: Any, turns: Mapping[int, int]) -> int | None:
    """How often a ``While`` turns, where its condition compares with a number that is known.

    ``turns`` are those of loops before it: the loop of the gradients counts as far as the first
    one did.
    """
    condition = _function_graph(operation, "cond")
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
