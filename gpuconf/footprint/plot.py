"""An estimate as a picture: memory over one step by what it is for, and a bar per layer."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuconf.errors import UsageError
from gpuconf.footprint.layer_bars import KINDS, draw_bars
from gpuconf.footprint.memory_estimate import TRACED, MemoryEstimate, Moment
from gpuconf.footprint.step_areas import COLORS, Area, areas_of, telling_places
from gpuconf.footprint.text import headline, modelled
from gpuconf.reporting.picture import INK, LIMIT, PALE, PLATE, canvas, plain, save, unit_for
from gpuconf.reporting.thinning import thinned
from gpuconf.units import sized

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 2400
_MOST_BARS = 20
_NARROWEST_LABEL = 0.09  # of the axis; a narrower area has no room for its name
_FARTHEST_LIMIT = 2.2  # times the peak; one that is farther off would flatten the rest
_WIDTH, _TITLE_WIDTH = 10.0, 78  # inches; letters


def draw(estimate: MemoryEstimate, path: str) -> None:
    """Draw into ``path``, .png or .svg; raises OSError, and UsageError without a timeline."""
    if not estimate.timeline:
        raise UsageError(
            "there is no picture: nothing of the step was traced",
            hint="leave --plot out to see the report alone",
        )
    rows = [row for row in estimate.layers if row.layer is not None and row.total_bytes]
    heights = [4.4, 0.24 * min(len(rows), _MOST_BARS) + 0.7] if rows else [4.4]
    title = textwrap.fill(headline(estimate), _TITLE_WIDTH)
    figure = canvas(_WIDTH, sum(heights) + 1.0, title, fontweight="bold")
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    _draw_step(panels[0], estimate)
    if rows:
        draw_bars(panels[1], rows[:_MOST_BARS], estimate)
    save(figure, path, "gpuconf estimate: traced, not a measurement on a GPU")


def _draw_step(axes: Axes, estimate: MemoryEstimate) -> None:
    telling = telling_places(estimate.timeline)
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
    axes.set_title(modelled(estimate), loc="left", fontsize=8.5, color=PALE, parse_math=False)
    axes.set_ylabel(name, color=PALE)
    plain(axes, "y")
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8.5, labelcolor=INK,
        reverse=True,
    )  # fmt: skip


def _draw_areas(axes: Axes, areas: Sequence[Area], count: int) -> None:
    """The parts of the step behind the curve, their names below it."""
    ticks, words = [], []
    for area in areas:
        axes.axvspan(area.first, area.end, color=COLORS[area.part], linewidth=0, zorder=0)
        if area.end - area.first > _NARROWEST_LABEL * count:
            ticks.append((area.first + area.end) / 2)
            words.append(area.name)
    axes.set_xticks(ticks, words)


def _draw_kinds(axes: Axes, moments: Sequence[Moment], places: Sequence[int], unit: int) -> None:
    """The kinds on top of each other, those that stay at the bottom; empty ones are left out."""
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
    """The limit as a line, or in words where it is far above; how high the axis must be."""
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
    if estimate.tier != TRACED:
        size += f" as measured, {sized(max(each.total_bytes for each in estimate.timeline))} traced"
    share = place / axes.get_xlim()[1]
    side = "right" if share > 0.8 else "left" if share < 0.2 else "center"
    axes.plot(place, height, "o", color=INK, markersize=5, zorder=6)
    axes.annotate(
        f"peak {size}\n{where}", (place, height), xytext=(0, 8),
        textcoords="offset points", ha=side, fontsize=9, fontweight="bold", color=INK, zorder=7,
        parse_math=False, bbox=PLATE,
    )  # fmt: skip
