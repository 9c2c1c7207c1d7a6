"""Functions of TensorFlow, walked as a step is, and run for comparison.

In units of a vector's size: every vector is of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.framework import func_graph

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.phases import live_bytes
from gpuconf.commands.estimate.step import CONSTANT, DATA, OTHER_STATE, Piece, Step, Variable
from gpuconf.commands.estimate.tensorflow.attribution import operations_of
from gpuconf.commands.estimate.tensorflow.memory import Handle, Value, size_of
from gpuconf.commands.estimate.tensorflow.walk import Walk

UNIT_BYTES = 4 * MIB  # more than the allocator's first region
COUNT = UNIT_BYTES // 4
VECTOR = tf.TensorSpec([COUNT], tf.float32)
# What scalars and the like may add.
SMALL = 0.02


class Walked(NamedTuple):
    """What the walk found: a step of the pieces, without those of the data."""

    step: Step
    walk: Walk
    names: tuple[str, ...]

    @property
    def live(self) -> list[float]:
        """Units in use during each operation."""
        return [size / UNIT_BYTES for size in live_bytes(self.step)]

    @property
    def peak(self) -> float:
        """The most of them."""
        return max(self.live)

    def sizes(self, kind: str) -> list[float]:
        """Units of the pieces of a kind."""
        return [piece.size_bytes / UNIT_BYTES for piece in self.step.pieces if piece.kind == kind]


def walked(function: Callable[..., Any], *specs: Any) -> Walked:
    """Walk a function of these arguments."""
    graph = func_graph.func_graph_from_py_func("step", function, specs, {})
    walk = Walk()
    values: dict[int, Value] = {}
    for outside, inside in graph.captures:
        size = size_of(inside) or 0
        if outside.dtype == tf.resource:
            values[id(inside)] = Handle(Variable(inside.name, _bytes_behind(inside), OTHER_STATE))
        else:
            values[id(inside)] = walk.kept(size, CONSTANT)
    data = [tensor for tensor in graph.inputs if id(tensor) not in values]
    for tensor in data:
        values[id(tensor)] = walk.kept(size_of(tensor) or 0, DATA)
    found = walk.graph(graph, values)
    walk.keep(found.values())
    walk.finish()
    operations = operations_of(graph, walk.places, ())
    pieces = _without_data(walk.ledger.pieces())
    return Walked(Step(1, (), operations, pieces), walk, tuple(each.name for each in operations))


def _without_data(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(piece._replace(size_bytes=0) if piece.kind == DATA else piece for piece in pieces)


def _bytes_behind(handle: Any) -> int:
    from tensorflow.python.ops import handle_data_util

    what = handle_data_util.get_resource_handle_data(handle).shape_and_type[0]
    return int(tf.TensorShape(what.shape).num_elements() * tf.as_dtype(what.dtype).size)


def measured(function: Callable[..., Any], *arguments: Any, runs: int = 2) -> float:
    """Units that TensorFlow takes in a run of the function beyond what was there before."""
    compiled = tf.function(function).get_concrete_function(*arguments)
    before = peak = 0
    for _ in range(runs):
        tf.config.experimental.reset_memory_stats("CPU:0")
        before = tf.config.experimental.get_memory_info("CPU:0")["current"]
        result = compiled(*arguments)
        peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
        del result
    return (peak - before) / UNIT_BYTES


def take_one_large_region() -> None:
    """What comes then is cut off from it, and no odd piece is given for a vector."""
    tf.fill([256 * COUNT], 0.0)


def vector(value: float = 1.0) -> Any:
    """A vector of one unit."""
    return tf.fill([COUNT], value)
