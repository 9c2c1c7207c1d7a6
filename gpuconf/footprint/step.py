"""One training or inference step as memory sees it: what is allocated when, and until when.

This is the seam between the frameworks and the rest: a tracer of TensorFlow or JAX makes a
:class:`Step`; what comes after knows no framework.  Times are positions in the sequence of the
step's operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from gpuconf.json_shape import FieldRule, json_shape

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
WHOLE = "whole"  # of a step that XLA has compiled into one
Part = Annotated[str, FieldRule(enum=(FORWARD, BACKWARD, UPDATE, WHOLE))]
# What a piece of memory is for.
WEIGHTS, OPTIMIZER_STATE, OTHER_STATE = "weights", "optimizer state", "other state"
ACTIVATION, GRADIENT, TEMPORARY = "activation", "gradient", "temporary"
DATA, CONSTANT, WORKSPACE = "data", "constant", "workspace"
COMPILED = "compiled step"  # activations, gradients and temporaries in one block, laid out by XLA
ROUNDING = "rounding"  # of the allocator: chunks larger than what was asked for
BUILDING = "building"  # the random values of a weight that is made, beyond what a step takes
FIRST_STEP = "first step"  # what the first step takes, and later ones do not


class Variable(NamedTuple):
    """A weight or another variable: it lives before, through and after the step.

    ``layer`` is the path of the layer that it belongs to, or whose weight it goes with.
    """

    name: str
    size_bytes: int
    kind: str
    layer: str | None = None
    shape: tuple[int, ...] = ()


class Operation(NamedTuple):
    """A position in time: which operation, of which layer, in which part of the step."""

    name: str
    kind: str
    part: str
    layer: str | None = None


class Piece(NamedTuple):
    """Memory of a tensor from operation ``first`` to operation ``last``, both included.

    One that ``goes_on_from`` another takes over the memory of the piece of that number, which
    ended just before: the result of an operation that is written over its input.  One that
    ``becomes`` the variable of that number is its memory from then on, and the old one is free.
    """

    size_bytes: int
    first: int
    last: int
    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    goes_on_from: int | None = None
    becomes: int | None = None


class Share(NamedTuple):
    """Bytes of a layer's in a compiled step's block when it is fullest.

    ``is_kept``: results of the forward pass, which the backward pass needs.
    """

    layer: str | None
    is_kept: bool
    size_bytes: int


@json_shape(hidden=("notes",))
class TraceSetting(NamedTuple):
    """What was traced: in which mode, with which optimizer and precision."""

    training: bool
    """A step of fit(), or one of predict()."""
    jit: bool
    """Compiled with XLA."""
    precision: str
    """Keras's dtype policy, such as mixed_float16."""
    optimizer: str | None
    """Its name; None for inference."""
    loss: str | None
    """Its name; None where there is none."""
    backend: str
    """Keras's backend."""
    framework: str
    """The versions, as in ``tensorflow 2.21.0, keras 3.15.1``."""
    notes: tuple[str, ...] = ()


class Step(NamedTuple):
    """What a tracer gives: ``pieces`` in the order in which they are allocated.

    ``layers`` are the layers' classes by their paths; ``notes`` say in plain words what was
    assumed or left out.  ``spare_bytes`` is what the framework may also take when memory
    runs short.  ``shares`` say whose the block of a compiled step is.  ``late`` has the numbers of
    the variables that get memory of their own only in the first step, at that position.  In an
    ``is_compiled`` step they get it last, when all pieces are there.  ``origin``
    is the tracer's: what makes the same step at other batch sizes without a whole trace.
    """

    batch_size: int
    variables: tuple[Variable, ...]
    operations: tuple[Operation, ...]
    pieces: tuple[Piece, ...]
    layers: Mapping[str, str] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    setting: TraceSetting | None = None
    spare_bytes: int = 0
    shares: tuple[Share, ...] = ()
    late: Mapping[int, int] = MappingProxyType({})
    is_compiled: bool = False
    origin: Any = None

    @property
    def resident_bytes(self) -> int:
        """The variables, as they were asked for."""
        return sum(variable.size_bytes for variable in self.variables)


def with_workspaces_up_to(step: Step, limit_bytes: int | None) -> Step:
    """The step with no single workspace larger than the limit; None for none."""
    if limit_bytes is None:
        return step
    pieces = tuple(
        piece._replace(size_bytes=min(piece.size_bytes, limit_bytes))
        if piece.kind == WORKSPACE
        else piece
        for piece in step.pieces
    )
    return step._replace(pieces=pieces)
