"""The layers' rows as a table of MiB for people, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuconf.footprint.memory_estimate import LayerRow
from gpuconf.reporting.picture import shortened
from gpuconf.units import mib_figure

_MOST_ROWS = 10
_NARROWEST_NAME = 14
_COLUMNS = ("weights", "gradients", "optimizer", "kept", "other", "sum")
_SHORT = ("weights", "grads", "optim", "kept", "other", "sum")


class TableRow(NamedTuple):
    """A name and the bytes of the columns."""

    name: str
    sizes: tuple[int, ...]


def table_rows(rows: Sequence[LayerRow], *, is_whole: bool) -> list[TableRow]:
    """The largest layers, what the others have together, what is of none, and the sum of all."""
    layers = [row for row in rows if row.layer is not None]
    shown = layers if is_whole or len(layers) <= _MOST_ROWS + 1 else layers[:_MOST_ROWS]
    rest = layers[len(shown) :]
    found = [TableRow(row.layer or "", _sizes(row)) for row in shown]
    if rest:
        found.append(TableRow(f"{len(rest)} smaller layers", _added(map(_sizes, rest))))
    unattributed = [_sizes(row) for row in rows if row.layer is None]
    if unattributed:
        found.append(TableRow("unattributed/workspace", _added(unattributed)))
    return [*found, TableRow("together", _added(map(_sizes, rows)))]


def _sizes(row: LayerRow) -> tuple[int, ...]:
    return (
        row.parameters_bytes,
        row.gradients_bytes,
        row.optimizer_state_bytes,
        row.activations_bytes,
        row.temporaries_bytes + row.other_bytes,
        row.total_bytes,
    )


def _added(rows: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=True))) or (0,) * len(_COLUMNS)


def table_lines(rows: Sequence[TableRow], width: int | None) -> Iterator[str]:
    """The table's lines, its heading first; columns that hold nothing are left out.

    Where the terminal is narrow, headings are shortened, and then the names of layers, at the
    beginning: what makes them differ is their end.
    """
    used = [place for place in range(len(_COLUMNS)) if any(row.sizes[place] for row in rows)]
    cells = [[_figure(row.sizes[place]) for place in used] for row in rows]
    longest = max(len(row.name) for row in rows)
    for headings, gap in ((_COLUMNS, "  "), (_SHORT, "  "), (_SHORT, " ")):
        heads = [headings[place] for place in used]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        left = longest if width is None else width - sum(len(gap) + each for each in widths)
        if left >= min(longest, _NARROWEST_NAME + 8):
            break
    left = min(longest, max(left, _NARROWEST_NAME))
    for name, row in zip(("MiB", *(row.name for row in rows)), (heads, *cells), strict=True):
        numbers = [cell.rjust(size) for cell, size in zip(row, widths, strict=True)]
        yield gap.join([shortened(name, left).ljust(left), *numbers])


def _figure(size_bytes: int) -> str:
    return mib_figure(size_bytes) if size_bytes else "-"
