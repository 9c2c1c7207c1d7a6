"""Changes that TensorFlow's graph optimizer makes before a graph runs and that affect memory.

An operation on constants only becomes a constant.  Operations that depend on it may run at once,
so their results may exist long before they are needed.  The second of two equal operations is
removed.  A tree of additions of one shape becomes one sum, which needs all its terms at the same
time.  Source: ``tensorflow/core/grappler/optimizers``, ``constant_folding.cc`` (``IsFoldable``)
and ``arithmetic_optimizer.cc`` (``DedupComputations``, ``AddOpsRewriteStage``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence, Set
from typing import Any

from gpuconf.commands.estimate.tensorflow.memory import size_of
from gpuconf.commands.estimate.tensorflow.operations import BRANCHES, CALLS, LOOPS

_ADDITIONS = frozenset({"Add", "AddV2", "AddN"})
_NEVER_FOLDED = CALLS | BRANCHES | LOOPS


class Rewritten:
    """The remaining operations of a graph, in the order of their creation."""

    def __init__(self, graph: Any) -> None:
        self._merged: dict[int, Any] = {}
        self._terms: dict[int, list[Any]] = {}
        self._stateful: dict[str, bool] = {}
        self._folded: set[int] = set()
        for operation in _needed(graph):
            if self._is_foldable(operation):
                self._folded.add(id(operation))
        needed = self._without_twins(_needed(graph, self._folded))
        self.operations = self._without_terms(needed, graph)

    def source(self, tensor: Any) -> Any:
        """The tensor that replaces this one.

        ``IdentityN`` is removed too, so that no operation waits for all its inputs.
        """
        tensor = past_identities(tensor)
        return self._merged.get(id(tensor), tensor)

    def inputs(self, operation: Any) -> list[Any]:
        """The input tensors of an operation."""
        if id(operation) in self._folded:
            return []
        terms = self._terms.get(id(operation))
        return terms if terms is not None else [self.source(each) for each in operation.inputs]

    def is_constant(self, operation: Any) -> bool:
        """Whether the operation's results are known before the graph runs."""
        return operation.type == "Const" or id(operation) in self._folded

    def _is_foldable(self, operation: Any) -> bool:
        """Whether all inputs are constants and the result is not larger than they are.

        TensorFlow also folds larger results, up to 100 KiB.  Here that would make the graph depend
        on its batch size, and such operations run among the first anyway.
        """
        tensors = [past_identities(tensor) for tensor in operation.inputs]
        if not tensors or not all(self.is_constant(tensor.op) for tensor in tensors):
            return False
        if operation.type in _NEVER_FOLDED or self._is_stateful(operation):
            return False
        most = sum(size_of(tensor) or 0 for tensor in tensors)
        return all(0 < (size_of(tensor) or 0) <= most for tensor in operation.outputs)

    def _without_twins(self, operations: Sequence[Any]) -> list[Any]:
        left: list[Any] = []
        seen: dict[Hashable, list[Any]] = {}
        for operation in operations:
            if self._is_stateful(operation) or operation.type == "Placeholder":
                left.append(operation)
                continue
            alike = seen.setdefault(self._key(operation), [])
            twin = next((each for each in alike if _attributes_are_equal(each, operation)), None)
            if twin is None:
                alike.append(operation)
                left.append(operation)
            else:
                pairs = zip(operation.outputs, twin.outputs, strict=True)
                self._merged.update((id(own), other) for own, other in pairs)
        return left

    def _key(self, operation: Any) -> Hashable:
        inputs = tuple(id(self.source(each)) for each in operation.inputs)
        after = tuple(sorted(id(each) for each in operation.control_inputs))
        value = b""
        if operation.type == "Const":
            value = operation.node_def.attr["value"].SerializeToString()
        return operation.type, inputs, after, value

    def _is_stateful(self, operation: Any) -> bool:
        if operation.type not in self._stateful:
            self._stateful[operation.type] = bool(operation.op_def.is_stateful)
        return self._stateful[operation.type] or not operation.outputs

    def _without_terms(self, operations: Sequence[Any], graph: Any) -> list[Any]:
        """The operations without the additions that were merged into another one."""
        uses = Counter(id(each) for operation in operations for each in self.inputs(operation))
        uses.update(id(self.source(each)) for each in graph.outputs)
        waited_for = {id(each) for operation in operations for each in operation.control_inputs}
        taken: set[int] = set()
        for operation in operations:
            if not _is_plain_addition(operation):
                continue
            terms: list[Any] = []
            for tensor in self.inputs(operation):
                term = tensor.op
                is_own = uses[id(tensor)] == 1 and id(term) not in waited_for
                if is_own and _is_plain_addition(term):
                    taken.add(id(term))
                    terms += self.inputs(term)
                else:
                    terms.append(tensor)
            if len(terms) > len(operation.inputs):
                self._terms[id(operation)] = terms
        return [operation for operation in operations if id(operation) not in taken]


def past_identities(tensor: Any) -> Any:
    """The tensor behind an ``IdentityN``."""
    while tensor.op.type == "IdentityN":
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor


def _needed(graph: Any, folded: Set[int] = frozenset()) -> list[Any]:
    """The operations that a graph's results and side effects need, in the order of their creation.

    Operations in ``folded`` need no inputs.
    """
    wanted: set[int] = set()
    left = [past_identities(tensor).op for tensor in graph.outputs] + list(graph.control_outputs)
    while left:
        operation = left.pop()
        if id(operation) not in wanted:
            wanted.add(id(operation))
            if id(operation) not in folded:
                left += [past_identities(tensor).op for tensor in operation.inputs]
            left += operation.control_inputs
    return [operation for operation in graph.get_operations() if id(operation) in wanted]


def _is_plain_addition(operation: Any) -> bool:
    """Whether all terms have the sum's shape, and there are no control dependencies."""
    if operation.type not in _ADDITIONS or operation.control_inputs:
        return False
    shape = operation.outputs[0].shape
    return shape.is_fully_defined() and all(each.shape == shape for each in operation.inputs)


def _attributes_are_equal(one: Any, other: Any) -> bool:
    return bool(one.node_def.attr == other.node_def.attr)
