"""Holdings for notebooks: each card as a bar, its holders, and the waiting processes."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gpuconf.commands.ps.document import CardHoldings, Holdings
from gpuconf.commands.ps.text import (
    MEANINGS,
    bar_row,
    lines_of,
    nobody_text,
    problem_lines,
    process_columns,
    remark_lines,
    waiting_columns,
)
from gpuconf.support.reporting.columns import Column
from gpuconf.support.reporting.html import (
    BARS,
    BarPart,
    Markup,
    bar,
    fragment,
    paragraph,
    preformatted,
    table_markup,
)
from gpuconf.support.reporting.lines import Table
from gpuconf.support.reporting.memory_bars import BarLayout


def html_of(holdings: Holdings) -> str:
    """Cards, processes, the queue, and gaps in the figures."""
    return html_for(holdings, os.getpid())


def html_for(holdings: Holdings, notebook: int) -> str:
    """The same, with the process of this pid marked as the notebook's."""
    return fragment(*_blocks(holdings, str(notebook)))


def text_of(holdings: Holdings) -> str:
    """The text that `gpuconf ps` prints to a file."""
    return "\n".join(line.text for line in lines_of(holdings, BarLayout()))


def _blocks(holdings: Holdings, notebook: str) -> Iterator[Markup]:
    yield from (paragraph(line.text) for line in problem_lines(holdings))
    for card in holdings.cards:
        yield from _card(card)
    columns, _ = process_columns(holdings)
    if columns:
        yield _table(columns, notebook)
    elif holdings.cards:
        yield paragraph(nobody_text(holdings))
    if holdings.waiting:
        yield _table(waiting_columns(holdings), notebook, "waiting in line")
    remarks = list(remark_lines(holdings))
    if remarks:
        yield preformatted(remarks)


def _card(card: CardHoldings) -> Iterator[Markup]:
    row = bar_row(card)
    yield paragraph(f"GPU {row.label}  {row.name}", "bold")
    if row.parts_bytes is not None:
        yield bar([BarPart(*part) for part in zip(MEANINGS, row.parts_bytes, BARS, strict=True)])
    yield from (paragraph(text, "dim") for text in row.below)


def _table(columns: list[Column], notebook: str, title: str = "") -> Markup:
    """A table of the columns that are not empty."""
    shown = [column for column in columns if any(column.cells)]
    rows = [
        tuple(
            f"{cell} (this notebook)" if (column.name, cell) == ("PID", notebook) else cell
            for column, cell in zip(shown, row, strict=True)
        )
        for row in zip(*(column.cells for column in shown), strict=True)
    ]
    return table_markup(Table(tuple(column.name for column in shown), rows, title))
