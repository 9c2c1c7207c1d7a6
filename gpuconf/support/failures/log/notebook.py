"""A Jupyter notebook -> the output of its cells, as a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuconf.support.notebook import NotebookError, cells_of

# Larger notebooks are read as plain text: there, too, each line of output is a line of the file.
LARGEST_NOTEBOOK = 64 << 20


def printed_by_cells(data: bytes, *, largest: int = LARGEST_NOTEBOOK) -> bytes | None:
    """The output and errors of a notebook's cells, in order; None if this is not a notebook.

    A notebook without output gives an empty line.
    """
    if len(data) > largest or data.lstrip()[:1] != b"{" or b'"cells"' not in data:
        return None
    try:
        cells = cells_of(data)
    except NotebookError:
        return None
    lines: list[str] = []
    for cell in cells:
        for output in _outputs(cell):
            lines.extend(_lines(output))
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _outputs(cell: dict[str, Any]) -> list[Any]:
    outputs = cell.get("outputs")
    return outputs if isinstance(outputs, list) else []


def _lines(output: Any) -> Iterator[str]:
    if not isinstance(output, dict):
        return
    yield from _texts(output.get("text"))
    traceback = output.get("traceback")
    if isinstance(traceback, list) and traceback:
        yield from _texts(traceback)
    elif "ename" in output:
        yield f"{output['ename']}: {output.get('evalue', '')}"
    data = output.get("data")
    if isinstance(data, dict):
        yield from _texts(data.get("text/plain"))


def _texts(value: Any) -> Iterator[str]:
    """Text that is stored as one string or as a list of pieces that end in their own newlines."""
    pieces = value if isinstance(value, list) else [value]
    for piece in pieces:
        if isinstance(piece, str):
            yield from piece.rstrip("\n").split("\n")
