"""Whole texts kept in files next to the tests that compare them: ``UPDATE=1 pytest FILE``."""

from __future__ import annotations

import os
from pathlib import Path


def check(file: Path, text: str) -> None:
    """Compare ``text`` with the file; with UPDATE set, write the file first, for you to read."""
    if os.environ.get("UPDATE"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"UPDATE=1 writes {file.name} again"
