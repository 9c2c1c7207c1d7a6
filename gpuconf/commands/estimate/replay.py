"""Replays a compiled step in the simulated allocator: its peak, and whether it fits a limit.

A step that ran (``step.memory``) needs no replay.
"""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.units import LARGEST_SIZE
from gpuconf.commands.estimate.allocator import Allocator, OutOfMemoryError
from gpuconf.commands.estimate.step import Step, StepMemory
from gpuconf.commands.estimate.variables_in_memory import VariablesInMemory

STEPS = 2  # the second step starts with the fragmentation left by the first


class Limit(NamedTuple):
    """How much the allocator may take, and whether it grows in regions.

    A step fits only if it leaves ``margin_bytes`` unused.
    """

    size_bytes: int
    allow_growth: bool = True
    margin_bytes: int = 0

    @property
    def usable_bytes(self) -> int:
        """The limit without the margin."""
        return self.size_bytes - self.margin_bytes


def memory_of(step: Step, *, allow_growth: bool = True) -> StepMemory:
    """Return what the step took when it ran, or takes in an allocator with unlimited memory."""
    if step.memory is not None:
        return step.memory
    return _replayed(
        step, Allocator(None if allow_growth else LARGEST_SIZE, allow_growth=allow_growth)
    )


def fits(step: Step, limit: Limit) -> bool:
    """Whether the step needs no more than the limit; a replayed one, including fragmentation."""
    if step.memory is not None:
        return step.memory.peak_bytes <= limit.usable_bytes
    try:
        _replayed(step, Allocator(limit.usable_bytes, allow_growth=limit.allow_growth))
    except OutOfMemoryError:
        return False
    return True


def _replayed(step: Step, allocator: Allocator) -> StepMemory:
    """Make the variables and run the step: one operation, so all its pieces are live at once."""
    variables = VariablesInMemory(step, allocator)
    built = allocator.peak_bytes
    peaks = []
    for _ in range(STEPS):
        chunks = [allocator.allocate(piece.size_bytes) for piece in step.pieces]
        unshared = variables.rewrite(step.late)
        peaks.append(allocator.in_use_bytes)
        for chunk in (*chunks, *unshared):
            allocator.free(chunk)
    first, last = peaks
    everything = tuple(range(len(step.pieces)))
    return StepMemory(built, first, last, allocator.in_use_bytes, (last,), 0, everything)
