"""Record buffers while a graph is walked, and turn them into the pieces of a :class:`Step`.

The walk records which operation makes a buffer and which ones use it.  Only once all users are
known is it clear where each buffer ends, and so which operation may overwrite its input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuconf.commands.estimate.step import OPTIMIZER_STATE, TEMPORARY, WORKSPACE, Piece, Variable

_NO_BYTES = frozenset({"resource", "variant", "string"})


def count_of(tensor: Any) -> int | None:
    """The number of elements, or None if the shape is unknown."""
    shape = tensor.shape
    return math.prod(shape.as_list()) if shape.is_fully_defined() else None


def size_of(tensor: Any) -> int | None:
    """Bytes on the device, or None if the shape is unknown; handles have 0."""
    if tensor.dtype.name in _NO_BYTES:
        return 0
    count = count_of(tensor)
    return None if count is None else int(count * tensor.dtype.size)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape, or an empty one if it is unknown."""
    return tuple(tensor.shape.as_list()) if tensor.shape.is_fully_defined() else ()


def static_value(tensor: Any) -> Any:
    """The value as an array if it is known, else None.  A resized tensor stores its own."""
    own = getattr(tensor, "static_value", None)
    if own is not None:
        return own()
    import tensorflow as tf

    return tf.get_static_value(tensor)


@dataclass(slots=True, eq=False)
class Buffer:
    """Memory of a tensor: allocated at ``first``, used until ``last``.

    ``takes_from`` are the inputs whose memory it may reuse.  A ``pinned`` buffer belongs to a
    variable or to the caller and cannot be reused.  ``becomes`` is the variable assigned from it.
    """

    size_bytes: int
    first: int
    last: int
    shape: tuple[int, ...] = ()
    dtype: str = ""
    kind: str = TEMPORARY
    takes_from: tuple[Buffer, ...] = ()
    pinned: bool = False
    becomes: Variable | None = None
    piece: int | None = None

    def use(self, now: int) -> None:
        """Record that the buffer is needed at ``now``."""
        self.last = max(self.last, now)


@dataclass(slots=True, eq=False)
class Handle:
    """A variable in the graph; ``readers`` have shared its memory since it was last copied."""

    variable: Variable
    is_sparse: bool = False
    readers: list[Buffer] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Items:
    """The elements of a TensorList."""

    elements: tuple[Value, ...]

    def use(self, now: int) -> None:
        """Record that all elements are needed at ``now``."""
        for element in self.elements:
            if isinstance(element, Buffer | Items):
                element.use(now)


# The value of a tensor in the graph; None has no memory on the device.
Value = Buffer | Handle | Items | None


class Update(NamedTuple):
    """A variable is changed in place at ``now``, after ``readers`` read it."""

    now: int
    size_bytes: int
    readers: tuple[Buffer, ...]


class Ledger:
    """All buffers of a step, in the order of their allocation."""

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._updates: list[Update] = []
        self._first_updates: dict[int, int] = {}

    def add(self, buffer: Buffer) -> Buffer:
        """Record a new buffer."""
        self._buffers.append(buffer)
        return buffer

    def new(
        self, tensor: Any, size_bytes: int, now: int, *, takes_from: tuple[Buffer, ...] = ()
    ) -> Buffer:
        """Record and return the buffer of a new tensor."""
        shape, dtype = shape_of(tensor), tensor.dtype.name
        return self.add(Buffer(size_bytes, now, now, shape, dtype, takes_from=takes_from))

    def workspace(self, size_bytes: int, now: int) -> None:
        """Record memory that an operation uses internally."""
        if size_bytes:
            self.add(Buffer(size_bytes, now, now, kind=WORKSPACE))

    def update(self, handle: Handle, now: int) -> None:
        """Record that a variable is changed."""
        self._first_updates.setdefault(id(handle.variable), now)
        if handle.readers:
            self._updates.append(Update(now, handle.variable.size_bytes, tuple(handle.readers)))
            handle.readers = []

    def assign(self, handle: Handle, value: Value, now: int) -> None:
        """Record that a variable takes over a result's memory (``AssignVariableOp``).

        If rows of the variable are updated, it gets a copy of the result instead.
        """
        if handle.is_sparse:
            value = self.add(Buffer(handle.variable.size_bytes, now, now))
        fits = isinstance(value, Buffer) and value.size_bytes == handle.variable.size_bytes
        if isinstance(value, Buffer) and fits and not value.pinned:
            value.becomes, value.pinned = handle.variable, True

    def late(self, variables: Sequence[Variable]) -> dict[int, int]:
        """When each variable of the optimizer's state is first changed, by the variable's number.

        An optimizer is built while the first step is traced.  All zeros of one shape are one
        tensor, which the variables share until each is changed (``PrepareToUpdateVariable``).
        """
        return {
            number: self._first_updates[id(variable)]
            for number, variable in enumerate(variables)
            if variable.kind == OPTIMIZER_STATE and id(variable) in self._first_updates
        }

    def pieces(self, variables: Sequence[Variable] = ()) -> tuple[Piece, ...]:
        """The allocations in order, once all uses are known; ``variables`` are the step's."""
        copies = [
            Buffer(update.size_bytes, update.now, last)
            for update in self._updates
            if (last := max(reader.last for reader in update.readers)) > update.now
        ]
        made = [buffer for buffer in self._buffers if buffer.size_bytes]
        numbers = {id(variable): number for number, variable in enumerate(variables)}
        return _pieces(sorted([*made, *copies], key=lambda buffer: buffer.first), numbers)


def _pieces(buffers: Sequence[Buffer], numbers: Mapping[int, int]) -> tuple[Piece, ...]:
    """The pieces; if an output reuses an input's memory, its piece stays in the same chunk."""
    pieces: list[Piece] = []
    taken: set[int] = set()
    for buffer in buffers:
        source = _source(buffer, taken)
        if source is not None:
            taken.add(source)
            pieces[source] = pieces[source]._replace(last=buffer.first - 1)
        buffer.piece = len(pieces)
        piece = Piece(
            buffer.size_bytes, buffer.first, buffer.last, buffer.kind, buffer.shape, buffer.dtype
        )
        becomes = numbers.get(id(buffer.becomes))
        pieces.append(piece._replace(goes_on_from=source, becomes=becomes))
    return tuple(pieces)


def _source(buffer: Buffer, taken: set[int]) -> int | None:
    for source in buffer.takes_from:
        ends_here = source.last == buffer.first and not source.pinned
        same = source.size_bytes == buffer.size_bytes and source.piece is not None
        if ends_here and same and source.piece not in taken and source.first < buffer.first:
            return source.piece
    return None
