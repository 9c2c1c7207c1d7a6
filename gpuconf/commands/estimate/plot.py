"""Draws an estimate: memory over one step by purpose, and a bar for each layer."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuconf.basics.units import sized
from gpuconf.commands.estimate.memory_estimate import LayerRow, MemoryEstimate, Moment
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    ARRAYS,
    BACKWARD,
    DATA,
    FORWARD,
    GPU,
    GRADIENT,
    OPTIMIZER_STATE,
    OTHER_STATE,
    ROUNDING,
    TEMPORARY,
    UPDATE,
    WEIGHTS,
    WHOLE,
    WORKSPACE,
)
from gpuconf.commands.estimate.text import headline, modeled
from gpuconf.errors import UsageError
from gpuconf.support.reporting.picture import (
    INK,
    LIMIT,
    PALE,
    PLATE,
    canvas,
    plain,
    save,
    shortened,
    unit_for,
)
from gpuconf.support.reporting.thinning import thinned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 2400
_MOST_BARS = 20
_NARROWEST_LABEL = 0.09  # of the axis; a narrower area has no room for its name
_FARTHEST_LIMIT = 2.2  # times the peak; a limit farther away would flatten the rest
_WIDTH, _TITLE_WIDTH = 10.0, 78  # inches; letters
# From the bottom of the stack to the top: resident memory is blue, passing memory is not.
KINDS = {
    WEIGHTS: "#1d3f5e",
    OPTIMIZER_STATE: "#2a6f97",
    OTHER_STATE: "#7fa8c4",
    ARRAYS: "#a9c9de",
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
COLORS = {FORWARD: "#f4f1ea", BACKWARD: "#e6eef4", UPDATE: "#eef2e6", WHOLE: "#f4f1ea"}
_ORDER = (FORWARD, BACKWARD, UPDATE)
_LEAST_CHANGE = 1 / 2000  # of the peak
_LEAST_SHARE = 0.2  # of a range of steps, to be named with it


def _draw_bars(axes: Axes, rows: Sequence[LayerRow], estimate: MemoryEstimate) -> None:
    """Draw the top rows, each as a stack; the title says what is omitted."""
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
    others = f"; the others {sized(rest)} in total" if rest else ""
    return f"{which} at the peak{others}; {sized(nobodys)} outside layers"


def draw(estimate: MemoryEstimate, path: str) -> None:
    """Draw to ``path``, a .png or .svg file; raise OSError, or UsageError without a timeline."""
    if not estimate.timeline:
        raise UsageError(
            "there is nothing to plot: the step was not traced",
            hint="leave --plot out to see only the report",
        )
    rows = [row for row in estimate.layers if row.layer is not None and row.total_bytes]
    heights = [4.4, 0.24 * min(len(rows), _MOST_BARS) + 0.7] if rows else [4.4]
    title = textwrap.fill(headline(estimate), _TITLE_WIDTH)
    figure = canvas(_WIDTH, sum(heights) + 1.0, title, fontweight="bold")
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_step(panels[0], estimate)
    if rows:
        _draw_bars(panels[1], rows[:_MOST_BARS], estimate)
    where = "measured on this machine's GPU" if estimate.tier == GPU else "not measured on a GPU"
    save(figure, path, f"gpuconf estimate: {where}")


def _draw_step(axes: Axes, estimate: MemoryEstimate) -> None:
    telling = visible_changes(estimate.timeline)
    moments = [estimate.timeline[place] for place in telling]
    totals = [moment.total_bytes for moment in moments]
    highest = max(totals)
    name, unit = unit_for(highest)
    _draw_areas(axes, areas_of([moment.part for moment in moments]), len(moments))
    _draw_kinds(axes, moments, thinned(totals, _MOST_POINTS), unit)
    top = highest / unit * 1.17
    if estimate.limit_bytes is not None:
        top = max(top, _draw_limit(axes, estimate.limit_bytes, highest, unit))
    axes.set_xlim(0, len(moments))
    _mark_peak(axes, estimate, totals.index(highest) + 0.5, highest / unit)
    axes.set_ylim(0, top)
    axes.set_title(modeled(estimate), loc="left", fontsize=8.5, color=PALE, parse_math=False)
    axes.set_ylabel(name, color=PALE)
    plain(axes, "y")
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8.5, labelcolor=INK,
        reverse=True,
    )  # fmt: skip


def _draw_areas(axes: Axes, areas: Sequence[Area], count: int) -> None:
    """Draw the parts of the step behind the curve, with their names below."""
    ticks, words = [], []
    for area in areas:
        axes.axvspan(area.first, area.end, color=COLORS[area.part], linewidth=0, zorder=0)
        if area.end - area.first > _NARROWEST_LABEL * count:
            ticks.append((area.first + area.end) / 2)
            words.append(area.name)
    axes.set_xticks(ticks, words)


def _draw_kinds(axes: Axes, moments: Sequence[Moment], places: Sequence[int], unit: int) -> None:
    """Draw the kinds stacked, with resident ones at the bottom; empty ones are omitted."""
    others = {kind for moment in moments for kind in moment.bytes_by_kind} - set(KINDS)
    ends = [*places, len(moments)]
    below = [0.0] * len(ends)
    for kind in (*KINDS, *sorted(others)):
        sizes = [moments[place].bytes_by_kind.get(kind, 0) / unit for place in places]
        if not any(sizes):
            continue
        above = [low + size for low, size in zip(below, [*sizes, sizes[-1]], strict=True)]
        axes.fill_between(
            ends, below, above, step="post", linewidth=0, label=kind,
            color=KINDS.get(kind, PALE), zorder=2,
        )  # fmt: skip
        below = above
    axes.step(ends, below, where="post", color=INK, linewidth=0.5, zorder=3)


def _draw_limit(axes: Axes, limit: int, highest: int, unit: int) -> float:
    """Draw the limit as a line, or as text if it is far above the peak; return the axis height."""
    words = f"limit {sized(limit)}"
    if limit > _FARTHEST_LIMIT * highest:
        axes.text(
            0.008, 0.97, f"{words}, far above", transform=axes.transAxes, va="top", color=LIMIT,
            fontsize=9,
        )  # fmt: skip
        return 0.0
    axes.axhline(limit / unit, color=LIMIT, linewidth=1.4, linestyle=(0, (6, 3)), zorder=4)
    axes.annotate(
        words, (1, limit / unit), xycoords=("axes fraction", "data"), xytext=(-4, 4),
        textcoords="offset points", ha="right", color=LIMIT, fontsize=9, zorder=5, bbox=PLATE,
    )  # fmt: skip
    return limit / unit * 1.08


def _mark_peak(axes: Axes, estimate: MemoryEstimate, place: float, height: float) -> None:
    peak = estimate.peak
    where = f"{peak.part}, {peak.layer}" if peak.layer else peak.part
    size = sized(estimate.peak_bytes)
    share = place / axes.get_xlim()[1]
    side = "right" if share > 0.8 else "left" if share < 0.2 else "center"
    axes.plot(place, height, "o", color=INK, markersize=5, zorder=6)
    axes.annotate(
        f"peak {size}\n{where}", (place, height), xytext=(0, 8),
        textcoords="offset points", ha=side, fontsize=9, fontweight="bold", color=INK, zorder=7,
        parse_math=False, bbox=PLATE,
    )  # fmt: skip


class Area(NamedTuple):
    """A range of the step, from position ``first`` up to ``end``: ``backward``, or two combined."""

    part: str
    first: int
    end: int
    name: str


def visible_changes(moments: Sequence[Moment]) -> list[int]:
    """Return the moments at which memory changed visibly, including the first and the peak.

    Thousands of small operations, such as those that an optimizer runs for every weight, would
    reduce the rest to a sliver of the plot.
    """
    totals = [moment.total_bytes for moment in moments]
    peak = totals.index(max(totals))
    least, kept = totals[peak] * _LEAST_CHANGE, [0]
    for place, moment in enumerate(moments):
        before = moments[kept[-1]].bytes_by_kind
        if place > kept[-1] and (place == peak or _differs(moment.bytes_by_kind, before, least)):
            kept.append(place)
    return kept


def _differs(now: Mapping[str, int], before: Mapping[str, int], least: float) -> bool:
    return any(abs(now.get(kind, 0) - before.get(kind, 0)) > least for kind in {*now, *before})


def areas_of(parts: Sequence[str]) -> list[Area]:
    """Return forward, backward and update, each at most once and without gaps; or a compiled step.

    Operations run as soon as they can, so operations from different parts are interleaved. The
    boundaries are placed where the fewest operations are on the wrong side.
    """
    if WHOLE in parts:
        return [Area(WHOLE, 0, len(parts), "the compiled step")]
    edges = [0, *_borders(parts), len(parts)]
    found = []
    for part, first, end in zip(_ORDER, edges, edges[1:], strict=False):
        if end > first:
            shares = Counter(parts[first:end])
            others = [
                each
                for each in _ORDER
                if each != part and shares[each] >= _LEAST_SHARE * (end - first)
            ]
            found.append(Area(part, first, end, ", ".join([part, *others])))
    return found


def _borders(parts: Sequence[str]) -> tuple[int, int]:
    """Return where the backward part begins, and where the update begins."""
    backward = _border([part == FORWARD for part in parts])
    return backward, backward + _border([part != UPDATE for part in parts[backward:]])


def _border(is_before: Sequence[bool]) -> int:
    """Return the boundary with the fewest operations on the wrong side."""
    wrong = [0]  # how many more are on the wrong side than with a border at 0
    for each in is_before:
        wrong.append(wrong[-1] + (-1 if each else 1))
    return wrong.index(min(wrong))
