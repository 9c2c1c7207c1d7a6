"""A Jupyter notebook -> what its cells printed, as a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuconf.notebook import NotebookError, cells_of

# A larger one is read as plain text: each line of output is a line of the file there, too.
LARGEST_NOTEBOOK = 64 << 20


def printed_by_cells(data: bytes, *, largest: int = LARGEST_NOTEBOOK) -> bytes | None:
    """What the cells of a notebook printed and raised, in order; None where this is none.

    An empty line is what a notebook gives whose cells printed nothing.
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
    """A text that may be given whole or as a list of pieces that end in their own newlines."""
    pieces = value if isinstance(value, list) else [value]
    for piece in pieces:
        if isinstance(piece, str):
            yield from piece.rstrip("\n").split("\n")
