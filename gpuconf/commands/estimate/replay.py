"""Replays a step in the simulated allocator: memory over time, the peak, and what is live there.

Also computes the layers' shares of the peak, and memory over time by purpose.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuconf.basics.units import LARGEST_SIZE
from gpuconf.commands.estimate.allocator import Allocator, Chunk, OutOfMemoryError
from gpuconf.commands.estimate.memory_estimate import LayerRow, Moment
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    GRADIENT,
    OPTIMIZER_STATE,
    ROUNDING,
    TEMPORARY,
    WEIGHTS,
    Step,
    StepMemory,
)
from gpuconf.commands.estimate.variables_in_memory import VariablesInMemory

STEPS = 2  # the second step starts with the fragmentation left by the first
_COLUMNS = {
    WEIGHTS: "parameters_bytes",
    OPTIMIZER_STATE: "optimizer_state_bytes",
    GRADIENT: "gradients_bytes",
    ACTIVATION: "activations_bytes",
    TEMPORARY: "temporaries_bytes",
}


class Limit(NamedTuple):
    """How much the allocator may take, and whether it grows in regions.

    A step fits only if it leaves ``margin_bytes`` unused.
    """

    size_bytes: int
    allow_growth: bool = True
    margin_bytes: int = 0


def replay(step: Step, *, allow_growth: bool = True) -> StepMemory:
    """Run the step in an allocator with unlimited memory."""
    allocator = Allocator(None if allow_growth else LARGEST_SIZE, allow_growth=allow_growth)
    variables = VariablesInMemory(step, allocator)
    built = allocator.peak_bytes
    runs = [_run(step, _schedule(step), allocator, variables) for _ in range(STEPS)]
    resident = allocator.in_use_bytes
    series = runs[-1]
    peak = max(range(len(series)), key=series.__getitem__, default=0)
    live = tuple(
        number for number, piece in enumerate(step.pieces) if piece.first <= peak <= piece.last
    )
    first, last = (max([resident, *run]) for run in (runs[0], series))
    return StepMemory(built, first, last, resident, tuple(series), peak, live)


def memory_of(step: Step, *, allow_growth: bool = True) -> StepMemory:
    """What the step took when it ran, or takes in a replay."""
    return step.memory or replay(step, allow_growth=allow_growth)


def fits(step: Step, limit: Limit) -> bool:
    """Whether the step needs no more than the limit; a replayed one, including fragmentation."""
    size_bytes = limit.size_bytes - limit.margin_bytes
    if step.memory is not None:
        return step.memory.peak_bytes <= size_bytes
    allocator = Allocator(size_bytes, allow_growth=limit.allow_growth)
    schedule = _schedule(step)
    try:
        variables = VariablesInMemory(step, allocator)
        for _ in range(STEPS):
            _run(step, schedule, allocator, variables)
    except OutOfMemoryError:
        return False
    return True


class _Moment(NamedTuple):
    """The pieces that begin and end at an operation, and the variables it changes in place."""

    begins: list[int]
    ends: list[int]
    changes: list[int]


def _schedule(step: Step) -> Sequence[_Moment]:
    moments = [_Moment([], [], []) for _ in step.operations]
    goes_on = {piece.goes_on_from for piece in step.pieces}
    moved = {piece.becomes for piece in step.pieces}
    for variable, position in step.late.items():
        if variable not in moved:
            moments[position].changes.append(variable)
    for number, piece in enumerate(step.pieces):
        moments[piece.first].begins.append(number)
        if number not in goes_on:
            moments[piece.last].ends.append(number)
    return moments


def _run(
    step: Step, schedule: Iterable[_Moment], allocator: Allocator, variables: VariablesInMemory
) -> list[int]:
    """Return the memory in use during each operation."""
    pieces = step.pieces
    held: dict[int, Chunk] = {}
    series = []
    for moment in schedule:
        if not step.is_compiled:
            variables.change(moment.changes)
        for number in moment.begins:
            piece = pieces[number]
            if piece.goes_on_from is None:
                held[number] = allocator.allocate(piece.size_bytes)
            else:
                held[number] = held.pop(piece.goes_on_from)
        unshared = variables.rewrite(moment.changes) if step.is_compiled else ()
        series.append(allocator.in_use_bytes)
        for number in moment.ends:
            chunk, becomes = held.pop(number), pieces[number].becomes
            if becomes is None:
                allocator.free(chunk)
            else:
                variables.move(becomes, chunk)
        for chunk in unshared:
            allocator.free(chunk)
    return series


def layer_rows(step: Step, memory: StepMemory) -> tuple[LayerRow, ...]:
    """Return a row per layer, the largest first, and one for the rest; they add up to the peak."""
    columns: dict[str | None, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for variable in step.variables:
        column = _COLUMNS.get(variable.kind, "other_bytes")
        columns[variable.layer][column] += variable.size_bytes
    for number in memory.live:
        piece = step.pieces[number]
        layer = step.operations[piece.first].layer if piece.kind in _COLUMNS else None
        columns[layer][_COLUMNS.get(piece.kind, "other_bytes")] += piece.size_bytes
    for share in step.shares:  # parts of the block, which is counted whole above
        if share.layer is not None:
            kind = ACTIVATION if share.is_kept else TEMPORARY
            columns[share.layer][_COLUMNS[kind]] += share.size_bytes
            columns[None]["other_bytes"] -= share.size_bytes
    counted = sum(sum(row.values()) for row in columns.values())
    columns[None]["other_bytes"] += memory.peak_bytes - counted
    rows = [
        LayerRow(layer, step.layers.get(layer or "", ""), **row) for layer, row in columns.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.layer is None, -row.total_bytes)))


def timeline(step: Step, memory: StepMemory) -> tuple[Moment, ...]:
    """Return the memory in use during each operation; ``rounding`` is the allocator's overhead."""
    resident: Counter[str] = Counter()
    for variable in step.variables:
        resident[variable.kind] += variable.size_bytes
    begins: list[list[int]] = [[] for _ in range(len(step.operations) + 1)]
    ends: list[list[int]] = [[] for _ in range(len(step.operations) + 1)]
    for number, piece in enumerate(step.pieces):
        begins[piece.first].append(number)
        ends[piece.last + 1].append(number)
    moments, live = [], resident
    for position, operation in enumerate(step.operations):
        for number in ends[position]:
            live[step.pieces[number].kind] -= step.pieces[number].size_bytes
        for number in begins[position]:
            live[step.pieces[number].kind] += step.pieces[number].size_bytes
        kinds = {kind: size for kind, size in live.items() if size}
        kinds[ROUNDING] = max(0, memory.in_use_bytes[position] - sum(kinds.values()))
        moments.append(Moment(operation.part, operation.layer, operation.name, kinds))
    return tuple(moments)
