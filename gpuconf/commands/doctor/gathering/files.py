"""Small reads under a root folder: a missing or unreadable file is None, never an error.

``root`` is ``/`` on a real machine, and a folder with a file tree in tests.
"""

from __future__ import annotations

import os


def under(root: str, path: str) -> str:
    """``path``, which starts with a slash, under ``root``."""
    return os.path.join(root, path.lstrip("/"))


def read_text(path: str, *, last_bytes: int | None = None) -> str | None:
    """The text of the file at ``path``, or its end; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            if last_bytes is not None and os.fstat(file.fileno()).st_size > last_bytes:
                file.seek(-last_bytes, os.SEEK_END)
            return file.read().decode("utf-8", errors="replace")
    except (OSError, ValueError):
        return None


def names_in(folder: str) -> list[str]:
    """The names in ``folder``, sorted; empty if it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
