"""The plot of what held GPU memory when an allocation failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpuconf.basics.units import sized
from gpuconf.commands.explain.diagnosis import Diagnosis
from gpuconf.support.failures.facts.dump import Dump
from gpuconf.support.failures.reading import LogFacts
from gpuconf.support.reporting.picture import (
    IN_USE,
    INK,
    LIMIT,
    PALE,
    canvas,
    plain,
    save,
    shortened,
    unit_for,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FREE, _UNCLAIMED = "#dfe7ee", "#f4f1ea"
_MOST_BARS = 12
_LEAST_SHARE = 0.005
_LONGEST_NAME = 48


class Bar(NamedTuple):
    """A memory holder: its name and bytes."""

    name: str
    size_bytes: int


def draw(diagnosis: Diagnosis, path: str) -> None:
    """Draw the allocator's memory and its holders to ``path``; raises OSError."""
    facts = diagnosis.facts
    bars, dump = holders(facts), facts.dump if _has_sums(facts.dump) else None
    heights = ([1.3] if dump is not None else []) + ([0.32 * len(bars) + 0.8] if bars else [])
    figure = canvas(9.6, sum(heights) + 1.3, diagnosis.title)
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    if dump is not None:
        _draw_memory(panels[0], dump)
    if bars:
        _draw_bars(panels[-1], bars, _title(facts))
    save(figure, path, "gpuconf explain: what used the memory, from a log")


def has_picture(facts: LogFacts) -> bool:
    """Whether there is anything to draw."""
    return bool(holders(facts)) or _has_sums(facts.dump)


def _has_sums(dump: Dump | None) -> bool:
    return dump is not None and bool(dump.in_use_bytes or dump.free_bytes or dump.unclaimed_bytes)


def holders(facts: LogFacts) -> list[Bar]:
    """The largest holders: layers if the log names them, otherwise operations, otherwise sizes."""
    if facts.allocations is not None:
        bars = [Bar(layer.name, layer.size_bytes) for layer in facts.allocations.layers]
        rest = facts.allocations.rest_bytes
    elif facts.dump is not None and facts.dump.by_operation:
        bars, rest = [Bar(name, size) for name, size in facts.dump.by_operation], 0
    elif facts.dump is not None:
        groups = sorted(facts.dump.in_use, key=lambda chunks: -chunks.total_bytes)
        bars = [
            Bar(f"{each.number} × {sized(each.size_bytes)}", each.total_bytes) for each in groups
        ]
        rest = 0
    else:
        return []
    bars = [bar for bar in bars if bar.size_bytes > 0]
    least = max((bar.size_bytes for bar in bars), default=0) * _LEAST_SHARE
    shown = [bar for bar in bars[:_MOST_BARS] if bar.size_bytes >= least]
    rest += sum(bar.size_bytes for bar in bars[len(shown) :])
    return shown + ([Bar("(smaller ones)", rest)] if rest else [])


def _title(facts: LogFacts) -> str:
    if facts.allocations is not None:
        return "memory by layer"
    named = facts.dump is not None and facts.dump.by_operation
    return "used by operation" if named else "chunks in use, by size"


def _draw_memory(axes: Axes, dump: Dump) -> None:
    """Draw a bar as long as the limit: in use, free chunks, unclaimed; the request below it."""
    in_use, asked = dump.in_use_bytes or 0, dump.requested_bytes or 0
    free = sorted(dump.free_chunks or _free_as_one(dump), reverse=True)
    pieces = [(in_use, IN_USE, ""), *((size, _FREE, "") for size in free)]
    pieces += [(dump.unclaimed_bytes or 0, _UNCLAIMED, "//")]
    longest = max(sum(size for size, _, _ in pieces), in_use + asked)
    name, unit = unit_for(longest)
    left = 0.0
    for size, color, hatch in pieces:
        axes.barh(0, size / unit, left=left, color=color, hatch=hatch or None, height=0.6,
                  edgecolor=PALE, linewidth=0.5 if size else 0)  # fmt: skip
        left += size / unit
    axes.annotate(f"in use {sized(in_use)}", (0, 0.45), color=INK, fontsize=9)
    if dump.requested_bytes is not None:
        axes.barh(-0.8, asked / unit, left=in_use / unit, color="none", edgecolor=LIMIT,
                  height=0.4)  # fmt: skip
        # In its box if that is long enough, otherwise before or after it, where there is room.
        is_long, is_late = asked > longest / 4, in_use + asked > longest * 3 / 4
        place = in_use if is_long or is_late else in_use + asked
        axes.annotate(f" requested {sized(asked)} ", (place / unit, -0.8), va="center",
                      ha="right" if is_late and not is_long else "left", color=LIMIT,
                      fontsize=9)  # fmt: skip
    axes.set_title(_words_of(dump), loc="left", fontsize=9, color=PALE)
    axes.set_xlim(0, longest / unit * 1.02)
    axes.set_ylim(-1.2 if dump.requested_bytes is not None else -0.5, 0.9)
    axes.set_xlabel(name, color=PALE)
    plain(axes)
    axes.set_yticks([])


def _words_of(dump: Dump) -> str:
    largest = dump.largest_free_bytes
    free = "" if largest is None else f"; free chunks pale, the largest {sized(largest)}"
    claimed = "; hatched: not claimed from the GPU" if dump.unclaimed_bytes else ""
    limit = f", limit {sized(dump.limit_bytes)}" if dump.limit_bytes else ""
    return f"{dump.allocator or 'the allocator'}{limit}{free}{claimed}"


def _free_as_one(dump: Dump) -> tuple[int, ...]:
    return () if dump.free_bytes is None else (max(dump.free_bytes, 0),)


def _draw_bars(axes: Axes, bars: list[Bar], title: str) -> None:
    names = [shortened(bar.name, _LONGEST_NAME) for bar in bars]
    unit_name, unit = unit_for(max(bar.size_bytes for bar in bars))
    sizes = [bar.size_bytes / unit for bar in bars]
    places = range(len(bars))
    axes.barh(places, sizes, color=IN_USE, height=0.7)
    for place, bar in zip(places, bars, strict=True):
        axes.annotate(f" {sized(bar.size_bytes)}", (bar.size_bytes / unit, place), va="center",
                      fontsize=8, color=INK)  # fmt: skip
    axes.set_yticks(places, names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, max(sizes) * 1.15)
    axes.set_title(title, loc="left", fontsize=9, color=PALE)
    axes.set_xlabel(unit_name, color=PALE)
    plain(axes)
