"""GPU memory as bars for a terminal, each with a few parts and their sizes.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from gpuconf.basics.units import MIB
from gpuconf.support.reporting.lines import Line, line_of

GLYPHS = "█▓▒░"
_ASCII_GLYPHS = "#+=."
_PART_STYLES = ("red", "yellow", "green", "dim")
_LONGEST_NAME, _LONGEST_NAME_IN_80 = 28, 18
_INDENT = 5
_NUMBER_WIDTH = 8
_SHORTEST_BAR, _LONGEST_BAR = 12, 40
_WIDTH_OF_A_FILE = 120


class BarRow(NamedTuple):
    """A GPU: its name, and the sizes of its parts; None if they are unknown.

    ``below`` holds the lines to print under the GPU's row. ``busy`` says how busy the GPU is; empty
    if unknown.
    """

    label: str
    name: str
    parts_bytes: tuple[int, ...] | None
    below: tuple[str, ...] = ()
    busy: str = ""


class BarLayout(NamedTuple):
    """The width in columns (None for a file or pipe), and whether to use ASCII only."""

    width: int | None = None
    ascii: bool = False

    @property
    def glyphs(self) -> str:
        """The characters for the parts."""
        return _ASCII_GLYPHS if self.ascii else GLYPHS


def bar_lines(
    rows: Sequence[BarRow], parts: Sequence[str], meanings: Sequence[str], layout: BarLayout
) -> Iterator[Line]:
    """A header, a row for each GPU, and a legend; nothing if there are no GPUs.

    ``parts`` are the names of the parts in the header, and ``meanings`` their names in the legend.
    If a row does not fit, name, bar and figures go on separate lines.
    """
    if not rows:
        return
    rows = [row._replace(name=_short(row.name, layout)) for row in rows]
    name_width = max(len(row.name) for row in rows)
    columns = ["total", *parts, *(["busy"] if any(row.busy for row in rows) else [])]
    numbers_width = len(columns) * _NUMBER_WIDTH
    room = (layout.width or _WIDTH_OF_A_FILE) - _INDENT - name_width - 2 - numbers_width
    bar_width = min(room, _LONGEST_BAR)
    is_tall = bar_width < _SHORTEST_BAR
    numbers = "".join(f"{title.upper():>{_NUMBER_WIDTH}}" for title in columns)
    head = f"{'GPU':<5}{'NAME':<{name_width}}  {'MEMORY, MiB':<{max(bar_width, 0)}}{numbers}"
    yield Line("GPU  NAME" if is_tall else head, "bold", None)
    for row in rows:
        if is_tall:
            yield from _tall_row(row, parts, layout)
        else:
            yield _row(row, name_width, bar_width, layout)
        yield from (Line(f"{' ' * _INDENT}{text}", "dim", _INDENT) for text in row.below)
    if any(row.parts_bytes for row in rows):
        yield from _legend(meanings, layout)


def _short(name: str, layout: BarLayout) -> str:
    is_narrow = layout.width is not None and layout.width < 100
    longest = _LONGEST_NAME_IN_80 if is_narrow else _LONGEST_NAME
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _row(row: BarRow, name_width: int, bar_width: int, layout: BarLayout) -> Line:
    begin = f"{row.label:<{_INDENT}}{row.name:<{name_width}}  "
    if row.parts_bytes is None:
        return Line(begin.rstrip(), hang=None)
    figures = [*map(str, _figures(row.parts_bytes)), *([row.busy] if row.busy else [])]
    numbers = "".join(f"{figure:>{_NUMBER_WIDTH}}" for figure in figures)
    return line_of((begin, ""), *_bar(row.parts_bytes, bar_width, layout), (numbers, ""))


def _tall_row(row: BarRow, parts: Sequence[str], layout: BarLayout) -> Iterator[Line]:
    yield Line(f"{row.label:<{_INDENT}}{row.name}", hang=_INDENT)
    if row.parts_bytes is not None:
        width = max((layout.width or 0) - _INDENT, _SHORTEST_BAR)
        yield line_of((" " * _INDENT, ""), *_bar(row.parts_bytes, width, layout))
        total, *figures = _figures(row.parts_bytes)
        shown = [f"{name} {size}" for name, size in zip(parts, figures, strict=True)]
        shown += [f"busy {row.busy}"] if row.busy else []
        yield Line(f"{' ' * _INDENT}{total} MiB: {', '.join(shown)}", hang=_INDENT)


def _figures(parts_bytes: Sequence[int]) -> list[int]:
    """The total and its parts in whole MiB; the parts add up to the total."""
    ends = [end // MIB for end in accumulate(parts_bytes, initial=0)]
    return [ends[-1], *(end - begin for begin, end in pairwise(ends))]


def _bar(parts_bytes: Sequence[int], width: int, layout: BarLayout) -> list[tuple[str, str]]:
    lengths = _lengths(parts_bytes, width)
    return [
        (glyph * length, style)
        for glyph, length, style in zip(layout.glyphs, lengths, _PART_STYLES, strict=True)
        if length
    ]


def _lengths(parts_bytes: Sequence[int], width: int) -> list[int]:
    """Divide ``width`` among the parts; each part of at least 1% gets at least one column."""
    total = max(sum(parts_bytes), 1)
    lengths = [max(round(size / total * width), int(size * 100 >= total)) for size in parts_bytes]
    while sum(lengths) != width:
        largest = max(range(len(lengths)), key=lambda place: lengths[place])
        lengths[largest] += 1 if sum(lengths) < width else -1
    return lengths


def _legend(meanings: Sequence[str], layout: BarLayout) -> Iterator[Line]:
    pieces: list[tuple[str, str]] = []
    used = 0
    for glyph, meaning, style in zip(layout.glyphs, meanings, _PART_STYLES, strict=True):
        if pieces and layout.width is not None and used + len(meaning) + 4 > layout.width:
            yield line_of(*pieces)
            pieces, used = [], 0
        entry = [(f"{'  ' if pieces else ' ' * _INDENT}{glyph}", style), (f" {meaning}", "dim")]
        used += sum(len(text) for text, _ in entry)
        pieces += entry
    yield line_of(*pieces)
