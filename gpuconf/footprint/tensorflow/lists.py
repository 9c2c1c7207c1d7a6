"""TensorLists: what loops collect step by step, above all for the way back.

A list holds its elements, which share the memory of the tensors that were put in.
Source: ``tensorflow/core/kernels/list_kernels.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuconf.footprint.tensorflow.memory import Buffer, Items, Value
from gpuconf.footprint.tensorflow.sizes import size_of

if TYPE_CHECKING:
    from gpuconf.footprint.tensorflow.walk import Walk

Rule = Callable[["Walk", Any, Sequence[Value], int], Sequence[Value]]


def _elements(value: Value) -> tuple[Value, ...]:
    return value.elements if isinstance(value, Items) else ()


def _empty(_walk: Walk, _operation: Any, _inputs: Sequence[Value], _now: int) -> Sequence[Value]:
    return [Items(())]


def _same(_walk: Walk, _operation: Any, inputs: Sequence[Value], _now: int) -> Sequence[Value]:
    return [Items(_elements(inputs[0]))]


def _push(_walk: Walk, _operation: Any, inputs: Sequence[Value], _now: int) -> Sequence[Value]:
    return [Items((*_elements(inputs[0]), inputs[1]))]


def _pop(_walk: Walk, _operation: Any, inputs: Sequence[Value], now: int) -> Sequence[Value]:
    elements = _elements(inputs[0])
    if not elements:
        return [Items(()), None]
    if isinstance(last := elements[-1], Buffer | Items):
        last.use(now)
    return [Items(elements[:-1]), last]


def _set(walk: Walk, _operation: Any, inputs: Sequence[Value], _now: int) -> Sequence[Value]:
    """At the place of the turn that the loop is in: other orders need as much memory."""
    elements = _elements(inputs[0])
    if walk.turn >= len(elements):
        return [Items((*elements, inputs[2]))]
    return [Items((*elements[: walk.turn], inputs[2], *elements[walk.turn + 1 :]))]


def _get(walk: Walk, operation: Any, inputs: Sequence[Value], now: int) -> Sequence[Value]:
    elements = _elements(inputs[0])
    if isinstance(inputs[0], Items):
        inputs[0].use(now)
    found = elements[walk.turn] if walk.turn < len(elements) else None
    if found is None and (size := size_of(operation.outputs[0])):
        return [walk.new(operation.outputs[0], size, now)]  # an element never set: zeros
    return [found]


def _from_tensor(walk: Walk, operation: Any, inputs: Sequence[Value], now: int) -> Sequence[Value]:
    """Every element is a copy of its own."""
    tensor = operation.inputs[0]
    size, count = size_of(tensor), tensor.shape[0] if tensor.shape.rank else None
    if not size or not count:
        return [Items((inputs[0],))]
    return [Items(tuple(walk.new(tensor, size // count, now) for _ in range(count)))]


def _stack(walk: Walk, operation: Any, inputs: Sequence[Value], now: int) -> Sequence[Value]:
    """One tensor of all the elements."""
    if isinstance(inputs[0], Items):
        inputs[0].use(now)
    size = size_of(operation.outputs[0])
    if size is None:
        known = [each for each in _elements(inputs[0]) if isinstance(each, Buffer)]
        size = sum(each.size_bytes for each in known)
    return [walk.new(operation.outputs[0], size, now) if size else None]


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
