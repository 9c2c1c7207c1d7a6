"""A bar for each of the largest layers, by what of it is in memory at the peak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuconf.footprint.memory_estimate import LayerRow, MemoryEstimate
from gpuconf.footprint.step import (
    ACTIVATION,
    CONSTANT,
    DATA,
    GRADIENT,
    OPTIMIZER_STATE,
    OTHER_STATE,
    ROUNDING,
    TEMPORARY,
    WEIGHTS,
    WORKSPACE,
)
from gpuconf.reporting.picture import INK, PALE, plain, shortened, unit_for
from gpuconf.units import sized

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# From the bottom of the stack to its top: what stays is blue, what comes and goes is not.
KINDS = {
    WEIGHTS: "#1d3f5e",
    OPTIMIZER_STATE: "#2a6f97",
    OTHER_STATE: "#7fa8c4",
    CONSTANT: "#8d99a6",
    DATA: "#5b8c5a",
    ACTIVATION: "#e0a33b",
    GRADIENT: "#c8553d",
    TEMPORARY: "#8a6bb1",
    WORKSPACE: "#b98b6a",
    ROUNDING: "#cfd6dc",
}
_LONGEST_NAME = 40
_COLUMNS = {
    "parameters": ("parameters_bytes", KINDS[WEIGHTS]),
    "gradients": ("gradients_bytes", KINDS[GRADIENT]),
    "optimizer": ("optimizer_state_bytes", KINDS[OPTIMIZER_STATE]),
    "activations": ("activations_bytes", KINDS[ACTIVATION]),
    "other": ("", KINDS[TEMPORARY]),
}


def draw_bars(axes: Axes, rows: Sequence[LayerRow], estimate: MemoryEstimate) -> None:
    """The rows from above, each a stack; the title says what is not drawn."""
    name, unit = unit_for(max(row.total_bytes for row in rows))
    lefts, places = [0.0] * len(rows), range(len(rows))
    for label, (field, color) in _COLUMNS.items():
        sizes = [_bytes_of(row, field) / unit for row in rows]
        if any(sizes):
            axes.barh(places, sizes, left=lefts, color=color, height=0.72, label=label)
            lefts = [left + size for left, size in zip(lefts, sizes, strict=True)]
    for place, row in zip(places, rows, strict=True):
        axes.annotate(
            f" {sized(row.total_bytes)}", (row.total_bytes / unit, place), va="center",
            fontsize=8, color=INK,
        )  # fmt: skip
    axes.set_yticks(
        places, [shortened(row.layer or "", _LONGEST_NAME) for row in rows], parse_math=False
    )
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, max(lefts) * 1.1)
    axes.set_xlabel(name, color=PALE)
    axes.set_title(_title(rows, estimate), loc="left", fontsize=8.5, color=PALE)
    plain(axes, "x")
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8.5, labelcolor=INK
    )


def _bytes_of(row: LayerRow, field: str) -> int:
    if not field:
        return row.temporaries_bytes + row.other_bytes
    size: int = getattr(row, field)
    return size


def _title(rows: Sequence[LayerRow], estimate: MemoryEstimate) -> str:
    layers = [row for row in estimate.layers if row.layer is not None]
    rest = sum(row.total_bytes for row in layers) - sum(row.total_bytes for row in rows)
    nobodys = sum(row.total_bytes for row in estimate.layers if row.layer is None)
    which = f"the {len(rows)} largest of {len(layers)} layers" if rest else "the layers"
    others = f"; the others {sized(rest)} together" if rest else ""
    return f"{which} at the peak{others}; {sized(nobodys)} of no layer"
