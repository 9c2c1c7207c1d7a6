"""Walk a traced graph in execution order, and record which operations allocate and use memory.

The walk enters the heaviest branch of a condition, and repeats a loop for each iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpuconf.commands.estimate.step import CONSTANT
from gpuconf.commands.estimate.tensorflow import lists, operations
from gpuconf.commands.estimate.tensorflow.control_flow import (
    function_graph,
    heaviest_branch,
    number_of_turns,
)
from gpuconf.commands.estimate.tensorflow.memory import (
    Buffer,
    Handle,
    Items,
    Ledger,
    Value,
    count_of,
    size_of,
    static_value,
)
from gpuconf.commands.estimate.tensorflow.order import executed
from gpuconf.commands.estimate.tensorflow.rewriting import Rewritten
from gpuconf.commands.estimate.tensorflow.workspaces import workspace_bytes

_SMALLEST_CONSTANT_BYTES = 1024  # smaller ones are folded away or on the host


class OperationPlace(NamedTuple):
    """An operation's type, and the name of the top graph's operation that is or contains it."""

    name: str
    kind: str


class Walk:
    """The walk through a step's graph and the functions that it calls."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.places: list[OperationPlace] = []
        self.unknown: list[str] = []  # operations with a result of unknown size
        self.endless: list[str] = []  # loops with an unknown number of iterations
        self.largest_sum_bytes = 0  # of three or more gradients
        self.turns: dict[int, int] = {}  # iterations of loops, by the outputs' ids
        self.turn = 0  # iteration of the current loop
        self._constants: dict[int, Buffer] = {}
        self._kept: list[Buffer] = []
        self._graphs: dict[int, tuple[Rewritten, list[Any]]] = {}

    def kept(self, size_bytes: int, kind: str) -> Buffer:
        """Record memory that lasts for the whole step."""
        self._kept.append(Buffer(size_bytes, 0, 0, kind=kind, pinned=True))
        return self.ledger.add(self._kept[-1])

    def graph(
        self,
        graph: Any,
        values: Mapping[int, Value],
        under: OperationPlace | None = None,
    ) -> dict[int, Value]:
        """Walk all operations that the outputs need; return the value of each output."""
        known: dict[int, Value] = dict(values)
        rewritten, order = self._ordered(graph)
        for operation in order:
            if rewritten.is_constant(operation):
                known.update((id(tensor), self._constant(tensor)) for tensor in operation.outputs)
            else:
                self._operation(operation, rewritten.inputs(operation), known, under)
        return {id(tensor): known.get(id(rewritten.source(tensor))) for tensor in graph.outputs}

    def _ordered(self, graph: Any) -> tuple[Rewritten, list[Any]]:
        """The graph as it runs; a loop's body is rewritten once, not for every iteration."""
        if id(graph) not in self._graphs:
            rewritten = Rewritten(graph)
            self._graphs[id(graph)] = rewritten, executed(rewritten)
        return self._graphs[id(graph)]

    def keep(self, values: Iterable[Value]) -> None:
        """Keep the step's results until its end; no operation may reuse their memory."""
        for value in values:
            if isinstance(value, Buffer):
                value.pinned = True
                self._kept.append(value)
            elif isinstance(value, Items):
                self.keep(value.elements)

    def finish(self) -> int:
        """The number of positions; memory kept for the whole step ends at the last one."""
        if not self.places:
            self.places.append(OperationPlace("step", "NoOp"))
        end = len(self.places) - 1
        for buffer in self._kept:
            buffer.last = end
        return end + 1

    def _operation(
        self,
        operation: Any,
        tensors: Sequence[Any],
        known: dict[int, Value],
        under: OperationPlace | None,
    ) -> None:
        inputs = [known.get(id(tensor)) for tensor in tensors]
        kind = operation.type
        place = _place(operation, under)
        if kind in operations.CALLS:
            outputs = self._body(function_graph(operation, "f"), inputs, place)
        elif kind in operations.BRANCHES:
            outputs = self._body(heaviest_branch(operation), inputs[1:], place)
        elif kind in operations.LOOPS:
            outputs = self._loop(operation, inputs, place)
        elif kind == "Placeholder" or kind in operations.ON_HOST:
            outputs = [known.get(id(tensor)) for tensor in operation.outputs]
        elif kind in operations.ALIASES:
            outputs = inputs[: len(operation.outputs)]
        elif (unchanged := _unchanged_input(operation, tensors)) is not None:
            outputs = [inputs[unchanged]]
        else:
            outputs = self._compute(operation, tensors, inputs, place)
        for tensor, value in zip(operation.outputs, outputs, strict=False):
            known[id(tensor)] = value

    def _compute(
        self,
        operation: Any,
        tensors: Sequence[Any],
        inputs: Sequence[Value],
        place: OperationPlace,
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
            self._result(operation, number, now, _takes_from(operation, number, tensors, inputs))
            for number in range(len(operation.outputs))
        ]

    def _result(
        self, operation: Any, number: int, now: int, takes_from: tuple[Buffer, ...] = ()
    ) -> Buffer | None:
        tensor = operation.outputs[number]
        size = 0 if number in operations.EMPTY.get(operation.type, ()) else size_of(tensor)
        if size is None:
            size = _reserved(operation, number)
        if size is None:
            size = self._unknown(operation, tensor)
        if not size:
            return None
        return self.ledger.new(tensor, size, now, takes_from=takes_from)

    def _unknown(self, operation: Any, tensor: Any) -> int:
        """Take the size of the largest input if the size depends on the data."""
        self.unknown.append(operation.name)
        counts = [count_of(each) or 0 for each in operation.inputs]
        return int(max(counts, default=0) * (tensor.dtype.size or 0))

    def _read(self, operation: Any, value: Value, now: int) -> Value:
        if not isinstance(value, Handle):
            return self._result(operation, 0, now)
        if value.is_sparse:
            return self.ledger.new(operation.outputs[0], value.variable.size_bytes, now)
        reader = Buffer(0, now, now, pinned=True)
        value.readers.append(reader)
        return reader

    def _update(self, operation: Any, inputs: Sequence[Value], now: int) -> None:
        is_assigned = operation.type == "AssignVariableOp"
        for value in inputs:
            if isinstance(value, Handle):
                self.ledger.update(value, now)
                if is_assigned:
                    self.ledger.assign(value, inputs[1], now)
                if operation.type.startswith(operations.SPARSE_PREFIXES):
                    value.is_sparse = True

    def _constant(self, tensor: Any) -> Value:
        size = size_of(tensor) or 0
        if size < _SMALLEST_CONSTANT_BYTES:
            return None
        if id(tensor) not in self._constants:
            self._constants[id(tensor)] = self.kept(size, CONSTANT)
        return self._constants[id(tensor)]

    def _body(self, graph: Any, inputs: Sequence[Value], place: OperationPlace) -> Sequence[Value]:
        arguments = {id(tensor): value for tensor, value in zip(graph.inputs, inputs, strict=True)}
        known = self.graph(graph, arguments, place)
        return [known[id(tensor)] for tensor in graph.outputs]

    def _loop(
        self, operation: Any, values: Sequence[Value], place: OperationPlace
    ) -> Sequence[Value]:
        body = function_graph(operation, "body")
        turns = number_of_turns(operation, self.turns)
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
    """Bytes that cuDNN's kernel for a recurrent layer keeps; None for other outputs."""
    place, times = operations.RESERVED.get(operation.type, (None, {}))
    if number != place:
        return None
    kept, many = size_of(operation.outputs[0]), times.get(operation.get_attr("rnn_mode").decode())
    return None if kept is None or many is None else kept * many


def _takes_from(
    operation: Any, number: int, tensors: Sequence[Any], inputs: Sequence[Value]
) -> tuple[Buffer, ...]:
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
            source = tensors[place]
            if source.dtype.size == tensor.dtype.size and source.shape == tensor.shape:
                found.append(value)
    return tuple(found)


def _unchanged_input(operation: Any, tensors: Sequence[Any]) -> int | None:
    """The index of the input that an operation with a neutral scalar returns, else None."""
    neutral = operations.NEUTRAL.get(operation.type)
    if neutral is None or len(tensors) != 2:
        return None
    result = operation.outputs[0]
    for scalar in (1,) if operation.type in operations.ONE_SIDED else (0, 1):
        constant, other = tensors[scalar], tensors[1 - scalar]
        is_scalar = constant.shape.rank == 0 and _is_folded(constant.op)
        if is_scalar and _is_equal(other.shape, result.shape) and static_value(constant) == neutral:
            return 1 - scalar
    return None


def _is_folded(operation: Any) -> bool:
    """Whether the operation is a constant, or a cast of one, so its value is known in advance."""
    if operation.type == "Cast":  # such as the scalar of silu with float16
        return _is_folded(operation.inputs[0].op)
    return bool(operation.type == "Const")


def _is_equal(one: Any, other: Any) -> bool:
    return bool(one.is_fully_defined() and one == other)
