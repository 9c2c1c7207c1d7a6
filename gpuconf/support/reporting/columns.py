"""A table as lines of limited width: columns are cut, then dropped, by importance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from gpuconf.support.reporting.lines import Line

_GAP = "  "


class Column(NamedTuple):
    """A column: its header and its cells.

    ``shortest`` is the minimum width to which it may be cut; None means never. If there is not
    enough room, the column with the highest ``rank`` is dropped first; rank 0 is never dropped.
    """

    name: str
    cells: tuple[str, ...]
    is_right: bool = False
    shortest: int | None = None
    rank: int = 0

    @property
    def width(self) -> int:
        """The width of the widest cell."""
        return max(map(cell_len, (self.name, *self.cells)))


def column_lines(
    columns: Sequence[Column], width: int | None, styles: Sequence[str] = ()
) -> list[Line]:
    """A header, and a line per row, in its style from ``styles``; ``width`` None means no limit."""
    shown = [each for each in columns if any(each.cells)]
    widths = _fitted(shown, width)
    while widths is None:
        last = max(shown, key=lambda each: each.rank)
        if last.rank == 0:
            widths = [_least(each) for each in shown]  # overflows the width
            break
        shown.remove(last)
        widths = _fitted(shown, width)
    rows = zip(*(each.cells for each in shown), strict=True)
    lines = [Line(_row([each.name for each in shown], shown, widths), "bold", None)]
    for number, cells in enumerate(rows):
        style = styles[number] if styles else ""
        lines.append(Line(_row(cells, shown, widths), style, None))
    return lines


def _fitted(columns: Sequence[Column], width: int | None) -> list[int] | None:
    """Column widths that fit, the widest cut first; None if they cannot fit."""
    widths = [each.width for each in columns]
    over = 0 if width is None else sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while over > 0:
        rooms = [
            (widths[place], place)
            for place, each in enumerate(columns)
            if widths[place] > _least(each)
        ]
        if not rooms:
            return None
        widths[max(rooms)[1]] -= 1
        over -= 1
    return widths


def _least(column: Column) -> int:
    return column.width if column.shortest is None else min(column.width, column.shortest)


def _row(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    parts = []
    for text, column, width in zip(cells, columns, widths, strict=True):
        cut = text
        if cell_len(text) > width:
            cut = f"{set_cell_size(text, width - 1).rstrip()}…"
        blanks = " " * (width - cell_len(cut))
        parts.append(blanks + cut if column.is_right else cut + blanks)
    return _GAP.join(parts).rstrip()
