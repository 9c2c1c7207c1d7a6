"""The canvas shared by all plots: size, title, colors, units and file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpuconf.basics.units import KIB, MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE = "#22303c", "#6d7882"
IN_USE, LIMIT = "#2a6f97", "#c1121f"
# The background of text drawn on a curve.
PLATE: dict[str, Any] = {
    "boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.75, "linewidth": 0,
}  # fmt: skip


def canvas(width: float, height: float, heading: str = "", **font: Any) -> Figure:
    """An empty figure, ``width`` by ``height`` inches; ``font`` has options for its title.

    Uses Figure directly, not pyplot, so it needs no window system and leaves no global state.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    if heading:
        figure.suptitle(heading, x=0.01, ha="left", color=INK, fontsize=13, **font)
    return figure


def save(figure: Figure, path: str, about: str) -> None:
    """Save the figure as .png or .svg, with ``about`` in the file's metadata; raises OSError."""
    suffix = Path(path).suffix.lower()
    key = "Description" if suffix == ".svg" else "Comment"
    figure.savefig(path, format=suffix[1:], metadata={key: about})


def unit_for(size_bytes: int) -> tuple[str, int]:
    """The unit, and its bytes, for an axis up to this size; matches the sizes printed on it."""
    return ("MiB", MIB) if size_bytes >= MIB else ("KiB", KIB)


def shortened(name: str, longest: int) -> str:
    """Cut the beginning of ``name``: the names of layers differ at the end."""
    return name if len(name) <= longest else f"…{name[len(name) - longest + 1 :]}"


def plain(axes: Axes, grid: Literal["x", "y"] | None = None) -> None:
    """No frame; an optional grid on one axis, behind the data."""
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=PALE, length=0, labelsize=8.5)
    if grid is not None:
        axes.grid(axis=grid, color="white" if grid == "y" else "#e3e7ea", linewidth=0.9)
    axes.set_axisbelow(True)
