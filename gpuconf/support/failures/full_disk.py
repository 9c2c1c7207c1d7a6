"""Messages about a full disk: the folder, and the kind of file that was being written.  Pure."""

from __future__ import annotations

import ntpath
import os.path
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

HINT = "free some room there, or set TMPDIR to a folder on another disk"
_FILE = re.compile(
    r"Unable to write PTX contents to: (?P<whole>\S{1,4096})"
    r"|\bptxas exited with non-zero error code -?\d{1,10}, output: "
    r"cat: (?P<part>\S{1,4096}): No space left on device"
)
_IS_FULL = re.compile(
    r"No space left on device|Disk quota exceeded|not enough space on the disk"
    r"|Unable to write PTX contents|\d requested and \d{1,19} written|No usable temporary directory"
    r"|unexpected pos \d|PytorchStreamWriter failed writing"
)
# TensorFlow's "FILE; No space left on device": the file is the last word before the semicolon.
_BEHIND_A_FILE = re.compile(r"; (?:No space left on device|Disk quota exceeded)")
_NAMED = (
    # Python's OSError; of two files, the second is the one being written.
    re.compile(r"' -> '(?P<file>[^'\n]{1,4096})'"),
    re.compile(r"(?:left on device|quota exceeded|space on the disk): '(?P<file>[^'\n]{1,4096})'"),
    re.compile(r"filename = '(?P<file>[^'\n]{1,4096})', file descriptor"),  # from HDF5
    re.compile(r"['‘](?P<file>[^'’\n]{1,4096})['’]: No space left on device"),  # from cp
)
# The suffix of TensorFlow's temporary folders, which it removes later.
_FOR_A_WHILE = "_temp"

What = Literal["temporary files", "checkpoint", "data set", "events", "packages", "cache"]
# Patterns for the words of an error and for the file's name, most reliable first.
_KINDS: tuple[tuple[What, re.Pattern[str]], ...] = (
    ("packages", re.compile(r"Could not install packages|/pip-")),
    ("temporary files", re.compile(r"PTX contents|\bptxas\b|No usable temporary directory")),
    ("events", re.compile(r"\bevents\.out\.tfevents")),
    (
        "checkpoint",
        re.compile(
            r"SaveV2|save_restore_v2|variables_temp|part-\d{5}-of|inline_container|PytorchStream"
            r"|\.(?:h5|hdf5|keras|ckpt|pth?|safetensors|pb)\b|checkpoint",
            re.IGNORECASE,
        ),
    ),
    ("data set", re.compile(r"IteratorGetNext|SaveDataset|\.snapshot\b|\.tempstate|\.tfrecord")),
    ("cache", re.compile(r"/\.(?:cache|keras)/")),
    ("temporary files", re.compile(r"(?:^|[\s:'])(?:/var)?/tmp/")),
)


class Unwritten(NamedTuple):
    """A file that did not fit on the disk: its folder and its kind; None means unknown."""

    folder: str | None
    what: What | None


def full_folder(text: str) -> str | None:
    """The folder in which XLA could not write; None if ``text`` is not that error.

    TensorFlow may raise it as ResourceExhaustedError, which otherwise means GPU memory.
    """
    found = _FILE.search(text)
    return None if found is None else os.path.dirname(found["whole"] or found["part"])


def unwritten_in(texts: Iterable[str]) -> Unwritten | None:
    """The file that could not be written, as far as the texts name it; None if no disk is full."""
    full = [text for text in texts if _IS_FULL.search(text)]
    if not full:
        return None
    folders = [folder for text in full if (folder := full_folder(text) or _folder_in(text))]
    whole = "\n".join(full)
    kinds = [what for what, words in _KINDS if words.search(whole)]
    return Unwritten(next(iter(folders), None), next(iter(kinds), None))


def _folder_in(text: str) -> str | None:
    """The folder of the file named in an error."""
    behind = _BEHIND_A_FILE.search(text)
    words = text[: behind.start()].split() if behind is not None else []
    named = [found["file"] for pattern in _NAMED if (found := pattern.search(text))]
    files = [*words[-1:], *named]
    return _folder_of(files[0]) if files else None


def _folder_of(file: str) -> str:
    is_of_windows = "\\" in file
    if is_of_windows:
        return ntpath.dirname(file.replace("\\\\", "\\")) or "."
    folder = os.path.dirname(file)
    while folder.endswith(_FOR_A_WHILE):
        folder = os.path.dirname(folder)
    return folder or "."
