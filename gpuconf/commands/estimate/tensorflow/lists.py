"""TensorLists: tensors that loops collect step by step, mainly for the backward pass.

The elements of a list share the memory of the tensors that were put in.
Source: ``tensorflow/core/kernels/list_kernels.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpuconf.commands.estimate.tensorflow.memory import Buffer, Items, Ledger, Value, size_of


class WalkMoment(NamedTuple):
    """The walk's position: the loop iteration, the operation's number, and the ledger."""

    ledger: Ledger
    turn: int
    now: int


Rule = Callable[[WalkMoment, Any, Sequence[Value]], Sequence[Value]]


def _elements(value: Value) -> tuple[Value, ...]:
    return value.elements if isinstance(value, Items) else ()


def _empty(_at: WalkMoment, _operation: Any, _inputs: Sequence[Value]) -> Sequence[Value]:
    return [Items(())]


def _same(_at: WalkMoment, _operation: Any, inputs: Sequence[Value]) -> Sequence[Value]:
    return [Items(_elements(inputs[0]))]


def _push(_at: WalkMoment, _operation: Any, inputs: Sequence[Value]) -> Sequence[Value]:
    return [Items((*_elements(inputs[0]), inputs[1]))]


def _pop(at: WalkMoment, _operation: Any, inputs: Sequence[Value]) -> Sequence[Value]:
    elements = _elements(inputs[0])
    if not elements:
        return [Items(()), None]
    if isinstance(last := elements[-1], Buffer | Items):
        last.use(at.now)
    return [Items(elements[:-1]), last]


def _set(at: WalkMoment, _operation: Any, inputs: Sequence[Value]) -> Sequence[Value]:
    """Set the element at the loop's iteration; other orders need the same memory."""
    elements = _elements(inputs[0])
    if at.turn >= len(elements):
        return [Items((*elements, inputs[2]))]
    return [Items((*elements[: at.turn], inputs[2], *elements[at.turn + 1 :]))]


def _get(at: WalkMoment, operation: Any, inputs: Sequence[Value]) -> Sequence[Value]:
    elements = _elements(inputs[0])
    if isinstance(inputs[0], Items):
        inputs[0].use(at.now)
    found = elements[at.turn] if at.turn < len(elements) else None
    if found is None and (size := size_of(operation.outputs[0])):
        return [at.ledger.new(operation.outputs[0], size, at.now)]  # never set, so zeros
    return [found]


def _from_tensor(at: WalkMoment, operation: Any, inputs: Sequence[Value]) -> Sequence[Value]:
    """Make each element a separate copy."""
    tensor = operation.inputs[0]
    size, count = size_of(tensor), tensor.shape[0] if tensor.shape.rank else None
    if not size or not count:
        return [Items((inputs[0],))]
    return [Items(tuple(at.ledger.new(tensor, size // count, at.now) for _ in range(count)))]


def _stack(at: WalkMoment, operation: Any, inputs: Sequence[Value]) -> Sequence[Value]:
    """Stack all elements into one tensor."""
    if isinstance(inputs[0], Items):
        inputs[0].use(at.now)
    size = size_of(operation.outputs[0])
    if size is None:
        known = [each for each in _elements(inputs[0]) if isinstance(each, Buffer)]
        size = sum(each.size_bytes for each in known)
    return [at.ledger.new(operation.outputs[0], size, at.now) if size else None]


OPERATIONS: dict[str, Rule] = {
    "EmptyTensorList": _empty,
    "TensorListReserve": _empty,
    "TensorListResize": _same,
    "TensorListPushBack": _push,
    "TensorListPopBack": _pop,
    "TensorListSetItem": _set,
    "TensorListGetItem": _get,
    "TensorListFromTensor": _from_tensor,
    "TensorListStack": _stack,
    "TensorListConcatV2": _stack,
    "TensorListGather": _stack,
}
