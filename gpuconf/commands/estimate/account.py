"""What a step's memory consists of: the layers' shares of the peak, and its purposes over time."""

from __future__ import annotations

from collections import Counter, defaultdict

from gpuconf.commands.estimate.memory_estimate import LayerRow, Moment
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    COMPILED,
    DATA,
    GRADIENT,
    OPTIMIZER_STATE,
    ROUNDING,
    TEMPORARY,
    WEIGHTS,
    Step,
    StepMemory,
)

_COLUMNS = {
    WEIGHTS: "parameters_bytes",
    OPTIMIZER_STATE: "optimizer_state_bytes",
    GRADIENT: "gradients_bytes",
    ACTIVATION: "activations_bytes",
    TEMPORARY: "temporaries_bytes",
}
_OF_NO_LAYER = (DATA, COMPILED)


def layer_rows(step: Step, memory: StepMemory) -> tuple[LayerRow, ...]:
    """Return a row per layer, the largest first, and one for the rest; they add up to the peak."""
    columns: dict[str | None, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for variable in step.variables:
        column = _COLUMNS.get(variable.kind, "other_bytes")
        columns[variable.layer][column] += variable.size_bytes
    for number in memory.live:
        piece = step.pieces[number]
        layer = None if piece.kind in _OF_NO_LAYER else step.operations[piece.first].layer
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
        moments.append(Moment(position, operation.part, operation.layer, operation.name, kinds))
    return tuple(moments)
