"""The canvas of every picture: size, heading, colours, units and file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpuconf.units import KIB, MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE = "#22303c", "#6d7882"
IN_USE, LIMIT = "#2a6f97", "#c1121f"
# Behind a text that stands on a curve.
PLATE: dict[str, Any] = {
    "boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.75, "linewidth": 0,
}  # fmt: skip


def canvas(width: float, height: float, heading: str = "", **font: Any) -> Figure:
    """An empty figure of so many inches; ``font`` are options of its heading.

    The object, not pyplot: no window system is asked for, and no global state is left.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    if heading:
        figure.suptitle(heading, x=0.01, ha="left", color=INK, fontsize=13, **font)
    return figure


def save(figure: Figure, path: str, about: str) -> None:
    """Write the figure into ``path``, .png or .svg, with ``about`` in the file; raise OSError."""
    suffix = Path(path).suffix.lower()
    key = "Description" if suffix == ".svg" else "Comment"
    figure.savefig(path, format=suffix[1:], metadata={key: about})


def unit_for(size_bytes: int) -> tuple[str, int]:
    """The unit, and its bytes, of an axis up to this size: that of the sizes written on it."""
    return ("MiB", MIB) if size_bytes >= MIB else ("KiB", KIB)


def shortened(name: str, longest: int) -> str:
    """``name`` without its beginning: what makes the names of layers differ is their end."""
    return name if len(name) <= longest else f"…{name[len(name) - longest + 1 :]}"


def plain(axes: Axes, grid: Literal["x", "y"] | None = None) -> None:
    """No frame; the grid of one axis, if any, behind what is drawn."""
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=PALE, length=0, labelsize=8.5)
    if grid is not None:
        axes.grid(axis=grid, color="white" if grid == "y" else "#e3e7ea", linewidth=0.9)
    axes.set_axisbelow(True)
