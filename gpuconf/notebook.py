"""Jupyter notebooks: the cells in the JSON of an .ipynb file."""

from __future__ import annotations

import json
from typing import Any


class NotebookError(ValueError):
    """Text that is no notebook; the message says why."""


def cells_of(text: str | bytes) -> list[dict[str, Any]]:
    """The cells in order, each as in the file, of nbformat 3 or 4; raises NotebookError."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotebookError(f"a notebook is a JSON document, and this is none: {error}") from None
    sheets = notebook.get("worksheets") if isinstance(notebook, dict) else None
    sheet = sheets[0] if isinstance(sheets, list) and sheets else notebook  # nbformat 3 had sheets
    cells = sheet.get("cells") if isinstance(sheet, dict) else None
    if not isinstance(cells, list):
        raise NotebookError("this JSON document has no cells, so it is no notebook")
    return [cell for cell in cells if isinstance(cell, dict)]
