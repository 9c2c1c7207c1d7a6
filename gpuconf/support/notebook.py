"""Jupyter notebooks: the cells in the JSON of an .ipynb file, and the kernel that it requests."""

from __future__ import annotations

import json
from typing import Any

DEFAULT_KERNEL = "python3"  # Jupyter's name for the Python that it runs in


class NotebookError(ValueError):
    """The text is not a notebook; the message says why."""


def cells_of(text: str | bytes) -> list[dict[str, Any]]:
    """Return the cells in order, as stored by nbformat 3 or 4; raise NotebookError if it is not
    one.
    """
    return _cells(_document(text))


def kernel_of(text: str | bytes) -> str:
    """Return the name of the notebook's kernel; raise NotebookError if it is not a notebook."""
    notebook = _document(text)
    _cells(notebook)
    metadata = notebook.get("metadata")
    spec = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    name = spec.get("name") if isinstance(spec, dict) else None
    return name if isinstance(name, str) and name else DEFAULT_KERNEL


def _document(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotebookError(
            f"a notebook must be a JSON document, but this is not: {error}"
        ) from None


def _cells(notebook: Any) -> list[dict[str, Any]]:
    sheets = notebook.get("worksheets") if isinstance(notebook, dict) else None
    sheet = sheets[0] if isinstance(sheets, list) and sheets else notebook  # nbformat 3 had sheets
    cells = sheet.get("cells") if isinstance(sheet, dict) else None
    if not isinstance(cells, list):
        raise NotebookError("this JSON document has no cells, so it is not a notebook")
    return [cell for cell in cells if isinstance(cell, dict)]
