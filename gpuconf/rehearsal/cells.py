"""What became of a notebook's cells, and the peak of each.  Pure.

The agent in the kernel notes the cells and marks their beginnings on the tape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpuconf.json_shape import Bytes, Count
from gpuconf.rehearsal.runs import RunResult
from gpuconf.reporting.lines import Table
from gpuconf.units import sized


class RanCell(NamedTuple):
    """A code cell that was run."""

    cell: Count
    """Its number; the notebook's code cells are counted from 1."""
    error: str | None
    """The error that it raised, in one line; None where it raised none."""
    gpu: Count | None
    """TensorFlow's number of the GPU that came nearest to its limit meanwhile."""
    peak_bytes: Bytes | None
    """The most in use on that GPU meanwhile; None without a trace of memory."""
    limit_bytes: Bytes | None
    """What TensorFlow may take of that GPU."""


def cells_of(run: RunResult) -> tuple[RanCell, ...]:
    """The cells of a notebook, in the order in which they ran; none of a script."""
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
    """``cell 8, line 2``: where a notebook ended early; None for a script."""
    cells = trainer.get("cells")
    if not cells:
        return None
    where = (trainer.get("uncaught") or {}).get("where") or f"cell {cells[-1]['cell']}"
    return where.replace(":", ", line ")


def cell_table(cells: Sequence[RanCell]) -> Table | None:
    """The cells that had memory in use, or an error; None where there are none."""
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
