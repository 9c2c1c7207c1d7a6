"""What is in memory at the peak, by layer."""

from __future__ import annotations

from collections import defaultdict

from gpuconf.footprint.memory_estimate import LayerRow
from gpuconf.footprint.replay import Replay
from gpuconf.footprint.step import (
    ACTIVATION,
    GRADIENT,
    OPTIMIZER_STATE,
    TEMPORARY,
    WEIGHTS,
    Step,
)

_COLUMNS = {
    WEIGHTS: "parameters_bytes",
    OPTIMIZER_STATE: "optimizer_state_bytes",
    GRADIENT: "gradients_bytes",
    ACTIVATION: "activations_bytes",
    TEMPORARY: "temporaries_bytes",
}


def layer_rows(step: Step, replay: Replay) -> tuple[LayerRow, ...]:
    """A row for each layer, the largest first, then one for the rest: together the peak."""
    columns: dict[str | None, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for variable in step.variables:
        column = _COLUMNS.get(variable.kind, "other_bytes")
        columns[variable.layer][column] += variable.size_bytes
    for number in replay.live:
        piece = step.pieces[number]
        layer = step.operations[piece.first].layer if piece.kind in _COLUMNS else None
        columns[layer][_COLUMNS.get(piece.kind, "other_bytes")] += piece.size_bytes
    counted = sum(sum(row.values()) for row in columns.values())
    columns[None]["other_bytes"] += replay.peak_bytes - counted
    rows = [
        LayerRow(layer, step.layers.get(layer or "", ""), **row) for layer, row in columns.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.layer is None, -row.total_bytes)))
