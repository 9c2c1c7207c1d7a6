"""A traced graph at another batch size, with the parts of TensorFlow's graph API a walk needs."""

from __future__ import annotations

from typing import Any

from gpuconf.commands.estimate.tensorflow.paired_graphs import (
    BatchSizes,
    DoubtError,
    PairedGraphs,
    sizes_of,
)

_SMALL_COUNT = 1000  # below, TensorFlow makes zeros or ones a constant, otherwise a Fill


class ResizedTensor:
    """A ``traced`` tensor with another shape."""

    __slots__ = ("dtype", "name", "op", "shape", "traced", "value_index")

    def __init__(self, operation: ResizedOperation, traced: Any, shape: Any) -> None:
        self.op = operation
        self.traced = traced
        self.name: str = traced.name
        self.value_index: int = traced.value_index
        self.dtype = traced.dtype
        self.shape = shape

    def static_value(self) -> Any:
        """The value that ``tf.get_static_value`` would return."""
        import tensorflow as tf

        found = tf.get_static_value(self.traced)
        twin = self.op.twin
        if found is None or twin is None:
            return found
        other = tf.get_static_value(twin.outputs[self.value_index])
        return None if other is None else self.op.graph.sizes.value(found, other)


class ResizedOperation:
    """An operation with the attributes of the ``traced`` operation and its ``twin``."""

    def __init__(self, graph: ResizedGraph, traced: Any, twin: Any | None) -> None:
        self.graph = graph
        self.traced = traced
        self.twin = twin
        self.type: str = traced.type
        self.name: str = traced.name
        self.inputs = [graph.tensor(each) for each in traced.inputs]
        self.outputs = [
            ResizedTensor(self, tensor, graph.shape(tensor, twin)) for tensor in traced.outputs
        ]
        self.control_inputs: list[ResizedOperation] = []  # set later: there may be cycles

    @property
    def op_def(self) -> Any:
        """TensorFlow's definition of this type of operation."""
        return self.traced.op_def

    @property
    def node_def(self) -> Any:
        """The attributes, including a constant's value."""
        node = self.traced.node_def
        if self.type == "Const" and self.twin is not None:
            own, other = node.attr["value"], self.twin.node_def.attr["value"]
            if own != other:
                import tensorflow as tf

                value = self.outputs[0].static_value()
                own.tensor.CopyFrom(tf.make_tensor_proto(value, self.outputs[0].dtype))
        return node

    def get_attr(self, name: str) -> Any:
        """An attribute other than a constant's value."""
        return self.traced.get_attr(name)


class ResizedGraph:
    """The graph of ``pair`` at the batch size wanted in ``sizes``; DoubtError if it is unclear."""

    def __init__(self, pair: PairedGraphs, sizes: BatchSizes) -> None:
        self.pair = pair
        self.sizes = sizes
        self.traced = traced = pair.graph
        self._tensors: dict[int, ResizedTensor] = {}
        made: dict[int, ResizedOperation] = {}
        for each in traced.get_operations():
            operation = ResizedOperation(self, each, pair.twin(each))
            made[id(each)] = operation
            self._tensors.update((id(tensor.traced), tensor) for tensor in operation.outputs)
        for operation in made.values():
            operation.control_inputs = [made[id(each)] for each in operation.traced.control_inputs]
        self._operations = list(made.values())
        self.inputs = [self.tensor(each) for each in traced.inputs]
        self.outputs = [self.tensor(each) for each in traced.outputs]
        self.captures = [(outside, self.tensor(inside)) for outside, inside in traced.captures]
        self.control_outputs = [made[id(each)] for each in traced.control_outputs]
        self.functions = {
            name: ResizedGraph(inner, sizes) for name, inner in pair.functions.items()
        }

    def get_operations(self) -> list[ResizedOperation]:
        """All operations, in the order of their creation."""
        return self._operations

    def tensor(self, traced: Any) -> ResizedTensor:
        """The resized tensor of a traced tensor."""
        return self._tensors[id(traced)]

    def shape(self, tensor: Any, twin: Any | None) -> Any:
        """The shape of a traced tensor at this batch."""
        if twin is None:
            return tensor.shape
        other = twin.outputs[tensor.value_index]
        own, its = sizes_of(tensor), sizes_of(other)
        if own == its:
            return tensor.shape
        if own is None or its is None or len(own) != len(its):
            raise DoubtError(f"{tensor.name} has another rank at another batch")
        made = [self.sizes.size(*pair) for pair in zip(own, its, strict=True)]
        shape = type(tensor.shape)(made)
        self._check_filled(tensor.op, shape)
        return shape

    def _check_filled(self, operation: Any, shape: Any) -> None:
        """Raise DoubtError if TensorFlow would create zeros or ones differently at this size."""
        if self.sizes.wanted == self.sizes.other or operation.type not in ("Const", "Fill"):
            return
        is_small = (shape.num_elements() or 0) < _SMALL_COUNT
        if is_small != (operation.type == "Const"):
            raise DoubtError(f"{operation.name} is made in another way at another batch")
