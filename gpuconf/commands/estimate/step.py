"""The memory of one training or inference step: what is allocated when, and for how long.

This is the interface between the frameworks and the rest of the code. A tracer for TensorFlow or
JAX creates a :class:`Step`; all later code is independent of the framework. Times are positions in
the sequence of the step's operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple

from gpuconf.basics.json_shape import FieldRule, json_shape

# Where a step ran.
TRACED, SIMULATED_CARD, GPU = "traced", "simulated-card", "GPU"
Tier = Annotated[str, FieldRule(enum=(TRACED, SIMULATED_CARD, GPU))]
FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
WHOLE = "whole"  # a step that XLA compiled into one
Part = Annotated[str, FieldRule(enum=(FORWARD, BACKWARD, UPDATE, WHOLE))]
# The purposes of a piece of memory.
WEIGHTS, OPTIMIZER_STATE, OTHER_STATE = "weights", "optimizer state", "other state"
ARRAYS = "arrays of fit()"  # copied to the GPU whole
ACTIVATION, GRADIENT, TEMPORARY = "activation", "gradient", "temporary"
DATA, WORKSPACE = "data", "workspace"
COMPILED = "compiled step"  # activations, gradients and temporaries in one block, laid out by XLA
ROUNDING = "rounding"  # in the allocator: chunks larger than requested
BUILDING = "building"  # random values while a weight is created, beyond a step's memory
FIRST_STEP = "first step"  # memory that only the first step takes


class Variable(NamedTuple):
    """A weight or another variable, which is live before, during and after the step.

    ``layer`` is the path of its layer; for optimizer state, the path of the weight's layer.
    """

    name: str
    size_bytes: int
    kind: str
    layer: str | None = None


class Operation(NamedTuple):
    """A point in time: an operation, its layer, and its part of the step."""

    name: str
    part: str
    layer: str | None = None


class Piece(NamedTuple):
    """A tensor's memory from operation ``first`` to operation ``last``, inclusive."""

    size_bytes: int
    first: int
    last: int
    kind: str


class LayerShare(NamedTuple):
    """A layer's bytes in the block of a compiled step when the block is fullest.

    ``is_kept`` is set for results of the forward pass that the backward pass needs.
    """

    layer: str | None
    is_kept: bool
    size_bytes: int


@json_shape(hidden=("notes",))
class TraceSetting(NamedTuple):
    """What was traced: the mode, optimizer and precision."""

    training: bool
    """Whether it is a step of fit(), not of predict()."""
    jit: bool
    """Whether XLA compiled it."""
    precision: str
    """Keras's dtype policy, such as mixed_float16."""
    optimizer: str | None
    """The optimizer's name; None for inference."""
    loss: str | None
    """The loss's name; None without one."""
    backend: str
    """Keras's backend."""
    framework: str
    """The versions, such as ``tensorflow 2.21.0, keras 3.15.1``."""
    notes: tuple[str, ...] = ()


class StepMemory(NamedTuple):
    """The allocator statistics for a step, from a run or a sum.

    ``in_use_bytes[k]`` is the peak during operation ``k`` of the last step, ``peak`` the position
    of its maximum, and ``live`` the numbers of the pieces that are live at that point.
    ``built_bytes`` is the peak while the variables were created, ``first_step_bytes`` the peak of
    the first step, and ``step_bytes`` the peak of the later steps. ``runs_in_limit`` is False if
    the step failed under a limit above its peak because no free block of memory was large enough.
    """

    built_bytes: int
    first_step_bytes: int
    step_bytes: int
    in_use_bytes: tuple[int, ...]
    peak: int
    live: tuple[int, ...]
    runs_in_limit: bool = True

    @property
    def peak_bytes(self) -> int:
        """The overall peak."""
        return max(self.built_bytes, self.first_step_bytes, self.step_bytes)


class Step(NamedTuple):
    """The result of a tracer; ``pieces`` are in the order of their allocation.

    ``layers`` maps paths to layer classes.  ``notes`` describe assumptions and omissions.
    ``shares`` divide the block of a compiled step among layers.  ``memory`` is what
    the step needs; ``tier`` is where it ran, if at all.
    """

    batch_size: int
    variables: tuple[Variable, ...]
    operations: tuple[Operation, ...]
    pieces: tuple[Piece, ...]
    memory: StepMemory
    layers: Mapping[str, str] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    setting: TraceSetting | None = None
    shares: tuple[LayerShare, ...] = ()
    is_compiled: bool = False
    tier: str = TRACED

    @property
    def resident_bytes(self) -> int:
        """The requested size of all variables."""
        return sum(variable.size_bytes for variable in self.variables)
