"""What TensorFlow says when XLA finds no room for its temporary files.  Pure."""

from __future__ import annotations

import os.path
import re

HINT = "free some room there, or set TMPDIR to a folder on another disk"
_FILE = re.compile(
    r"Unable to write PTX contents to: (?P<whole>\S{1,4096})"
    r"|\bptxas exited with non-zero error code -?\d{1,10}, output: "
    r"cat: (?P<part>\S{1,4096}): No space left on device"
)


def full_folder(text: str) -> str | None:
    """The folder in which XLA could not write; None where ``text`` is not that error.

    TensorFlow may raise it as ResourceExhaustedError, which otherwise is of a GPU's memory.
    """
    found = _FILE.search(text)
    return None if found is None else os.path.dirname(found["whole"] or found["part"])
