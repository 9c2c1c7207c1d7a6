"""Place a step's variables in the simulated allocator when they are built and when they move."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpuconf.commands.estimate.allocator import Allocator, Chunk
from gpuconf.commands.estimate.step import WEIGHTS, Step, Variable

_DRAWN = 2  # temporary tensors of a weight's size while its random values are generated


class _Zeros(NamedTuple):
    """A tensor of zeros that new variables of this size and shape share."""

    size_bytes: int
    shape: tuple[int, ...]


class VariablesInMemory:
    """The chunks of a step's variables, by the variables' numbers.

    Variables are created one after the other.  Generating a weight's random values needs two more
    tensors of its size: one operation each draws, scales and shifts the values
    (``random_ops.random_uniform`` and others), and the last result becomes the variable.  It lies
    behind holes of its size, which later variables fill.  Late variables share a tensor of zeros
    of their shape until they are changed.
    """

    def __init__(self, step: Step, allocator: Allocator) -> None:
        self._allocator = allocator
        self._variables = step.variables
        self._chunks: dict[int, Chunk] = {}
        self._sharers: dict[_Zeros, set[int]] = {}
        for number, variable in enumerate(step.variables):
            if number in step.late:
                self._sharers.setdefault(_zeros_of(variable), set()).add(number)
            else:
                self._chunks[number] = self._made(variable.size_bytes, variable.kind)
        for zeros, numbers in self._sharers.items():
            self._chunks.update(dict.fromkeys(numbers, allocator.allocate(zeros.size_bytes)))

    def rewrite(self, numbers: Iterable[int]) -> list[Chunk]:
        """Replace variables by a compiled step's results; return the chunks the caller must free.

        XLA writes a result over its argument if nothing else uses that memory ("donated").  So all
        variables that share a tensor get their own memory while the tensor still exists.
        """
        left = {}
        for number in numbers:
            sharers = self._sharers.get(_zeros_of(self._variables[number]), set())
            if number in sharers and (len(sharers) > 1 or id(self._chunks[number]) in left):
                left[id(self._chunks[number])] = self._chunks[number]
                self._give_memory(number)
            sharers.discard(number)
        return list(left.values())

    def _give_memory(self, number: int) -> None:
        self._chunks[number] = self._allocator.allocate(self._variables[number].size_bytes)

    def _made(self, size_bytes: int, kind: str) -> Chunk:
        times = _DRAWN if kind == WEIGHTS else 0
        held = [self._allocator.allocate(size_bytes) for _ in range(times)]
        made = self._allocator.allocate(size_bytes)
        for values in reversed(held):
            self._allocator.free(values)
        return made


def _zeros_of(variable: Variable) -> _Zeros:
    return _Zeros(variable.size_bytes, variable.shape)
