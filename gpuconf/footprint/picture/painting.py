"""Colours and units that both panels of an estimate's picture share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpuconf.footprint.step import (
    ACTIVATION,
    BACKWARD,
    CONSTANT,
    DATA,
    FORWARD,
    GRADIENT,
    OPTIMIZER_STATE,
    OTHER_STATE,
    ROUNDING,
    TEMPORARY,
    UPDATE,
    WEIGHTS,
    WORKSPACE,
)
from gpuconf.units import GIB, KIB, MIB

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
PARTS = {FORWARD: "#f4f1ea", BACKWARD: "#e6eef4", UPDATE: "#eef2e6"}
LIMIT = "#c1121f"
INK, PALE = "#22303c", "#6d7882"


def unit_for(size_bytes: int) -> tuple[str, int]:
    """The axis' unit for sizes up to this one."""
    units = (("GiB", 4 * GIB, GIB), ("MiB", MIB, MIB))
    return next(((name, unit) for name, least, unit in units if size_bytes >= least), ("KiB", KIB))


def plain(axes: Axes, grid: Literal["x", "y"]) -> None:
    """No frame; the grid of one axis behind what is drawn."""
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=PALE, length=0, labelsize=8.5)
    axes.grid(axis=grid, color="white" if grid == "y" else "#e3e7ea", linewidth=0.9)
    axes.set_axisbelow(True)
