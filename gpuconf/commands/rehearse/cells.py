"""The results of a notebook's cells, and the peak of each.  Pure.

The agent in the kernel records the cells and marks their starts on the tape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuconf.basics.json_shape import Bytes, Count
from gpuconf.basics.units import sized
from gpuconf.commands.rehearse.runs import RunResult
from gpuconf.support.reporting.lines import Table


class RanCell(NamedTuple):
    """A code cell that was run."""

    cell: Count
    """The number of the cell; code cells are counted from 1."""
    error: str | None
    """The error that it raised, in one line; None if there was none."""
    gpu: Count | None
    """TensorFlow's number of the GPU that came closest to its limit during the cell."""
    peak_bytes: Bytes | None
    """The most memory in use on that GPU during the cell; None without a memory trace."""
    limit_bytes: Bytes | None
    """The most memory that TensorFlow may allocate on that GPU."""


def cells_of(run: RunResult) -> tuple[RanCell, ...]:
    """The cells of a notebook, in the order in which they ran; empty for a script."""
    usages = run.tape.usages if run.tape is not None else ()
    found = []
    for noted in run.trainer.get("cells", ()):
        number = noted["cell"]
        peaks = [(dict(usage.cell_peaks).get(number, 0), usage) for usage in usages]
        peak, usage = max(
            peaks, key=lambda each: each[0] / max(each[1].limit_bytes, 1), default=(None, None)
        )
        where = (None, None) if usage is None else (usage.index, usage.limit_bytes)
        found.append(RanCell(number, noted["error"], where[0], peak, where[1]))
    return tuple(found)


def failed_in(trainer: Mapping[str, Any]) -> str | None:
    """``cell 8, line 2``: where a notebook failed; None for a script."""
    cells = trainer.get("cells")
    if not cells:
        return None
    where = (trainer.get("uncaught") or {}).get("where") or f"cell {cells[-1]['cell']}"
    return where.replace(":", ", line ")


def cell_table(cells: Sequence[RanCell]) -> Table | None:
    """The cells that used memory or raised an error; None if there are none."""
    rows = [
        (
            str(each.cell),
            "" if each.peak_bytes is None else sized(each.peak_bytes),
            each.error or "",
        )
        for each in cells
        if each.peak_bytes or each.error
    ]
    return Table(("cell", "peak in use", "error"), rows) if rows else None
