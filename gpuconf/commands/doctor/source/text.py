"""The source to check: a script, or a notebook's code cells in order."""

from __future__ import annotations

import ast
import bisect
import io
import os
import re
import tokenize
import warnings
from itertools import pairwise
from typing import Any, NamedTuple

from gpuconf.basics.units import MIB
from gpuconf.commands.doctor.finding import SourcePlace
from gpuconf.errors import UsageError
from gpuconf.support.notebook import NotebookError, cells_of

_LARGEST_FILE = 32 * MIB
_NOTEBOOK = ".ipynb"
_LINE_END = re.compile(r"\r\n|\r|\n")
# Only IPython understands these: `%cd x`, `!pip install`, `?name`, `files = !ls`.
_MAGIC = re.compile(r"^(?P<indent>\s*)(?:[%!?]|[\w.]+\?+\s*$)")
_ASSIGNED_MAGIC = re.compile(r"^(?P<target>\s*[\w\s,.]+=\s*)[%!]\s*[A-Za-z]")
# Cell marks of jupytext, VS Code and Spyder, and of nbconvert.
_CELL_MARK = re.compile(r"#\s?%%|#\s?In\s?\[|#\s?<codecell>")
# After these magics the rest of a cell is still Python.
_PYTHON_CELL_MAGICS = {"time", "timeit", "capture", "prun", "python", "python3", "memit"}


class SourceText(NamedTuple):
    """Source text and its file name.

    ``cell_starts`` are the lines of ``text`` at which a notebook's code cells begin, from 1; empty
    for a script.  ``ipython_line`` is the first line of a script that only IPython can read, and
    ``ipython_text`` its content. ``errors`` are the errors from notebook cells that are not Python,
    which ``text`` omits.
    """

    filename: str
    text: str
    cell_starts: tuple[int, ...] = ()
    ipython_line: int | None = None
    ipython_text: str = ""
    errors: tuple[SyntaxError, ...] = ()

    def place(self, line: int, column: int | None = None) -> str:
        """``train.py:12`` or, with code cells counted from 1, ``train.ipynb:cell 3:2``."""
        where = self.filename
        if self.cell_starts:
            cell = bisect.bisect_right(self.cell_starts, line)
            where = f"{where}:cell {cell}"
            line = line - self.cell_starts[cell - 1] + 1
        return f"{where}:{line}" if column is None else f"{where}:{line}:{column}"

    def source_place(self, line: int, last_line: int | None = None) -> SourcePlace:
        """Like `place`, but as a value; ``last_line`` is counted like ``line``."""
        last = max(line, last_line or line)
        if not self.cell_starts:
            return SourcePlace(self.filename, line, last)
        cell = bisect.bisect_right(self.cell_starts, line)
        before = self.cell_starts[cell - 1] - 1
        return SourcePlace(self.filename, line - before, last - before, cell)

    @property
    def text_lines(self) -> list[str]:
        """The lines as Python counts them; str.splitlines recognizes more line endings."""
        return lines_of(self.text)


def parse(text: str) -> ast.Module:
    """The tree of ``text``, without the script's own warnings; raises what ast.parse raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def lines_of(text: str) -> list[str]:
    """``text`` split at Python's line endings."""
    return _LINE_END.split(text)


class UnreadableSourceError(Exception):
    """The text is not readable as Python; the message says why."""


def read_text(path: str) -> str:
    """The text of the file at ``path``, in its declared encoding.

    Raises UsageError if the file does not exist, cannot be read or is too large, and
    UnreadableSourceError if its bytes are not text.
    """
    check_script_path(path)
    try:
        with open(path, "rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"--script {path}: {error.strerror}", hint=f"ls -l {path}") from None
    if len(raw) > _LARGEST_FILE:
        raise UsageError(
            f"--script {path}: scripts larger than 32 MiB are not read",
            hint="name the script that you start with python",
        )
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return io.TextIOWrapper(io.BytesIO(raw), encoding).read()
    except (SyntaxError, UnicodeError, LookupError) as error:
        raise UnreadableSourceError(str(error)) from None


def check_script_path(path: str) -> None:
    """Raise UsageError if ``path`` is not a file that can be read as a script."""
    if not os.path.exists(path):
        raise UsageError(f"--script {path}: no such file", hint="ls *.py")
    if not os.path.isfile(path):
        raise UsageError(
            f"--script {path}: this is not a regular file", hint="name a .py or .ipynb file"
        )


def source_of(text: str, filename: str) -> SourceText:
    """``text`` as source; the file name's suffix identifies a notebook.

    Raises UnreadableSourceError if such a file is not a notebook.
    """
    if not filename.endswith(_NOTEBOOK):
        return _script_of(text, filename)
    lines: list[str] = []
    starts, errors = [], []
    for cell in _code_cells(text):
        starts.append(len(lines) + 1)
        python = _python_only(lines_of(cell))
        error = _error_in(python)
        if error is not None:
            error.lineno = len(lines) + max(error.lineno or 1, 1)
            errors.append(error)
            python = [""] * len(python)
        lines += python
    whole = "\n".join(lines) + "\n"
    return SourceText(filename, whole, tuple(starts) or (1,), errors=tuple(errors))


def _script_of(text: str, filename: str) -> SourceText:
    """A script, or a notebook saved as one, with magics and commands in its cells.

    Such lines are blanked out, as in a notebook, if the rest is Python.
    """
    lines = lines_of(text)
    if _is_python(lines):
        return SourceText(filename, text)
    starts = [number for number, line in enumerate(lines) if _CELL_MARK.match(line)]
    python: list[str] = []
    for first, end in pairwise([0, *starts, len(lines)]):
        python += _cell_python(lines[first:end])
    if not _is_python(python):
        return SourceText(filename, text)
    plain = "\n".join(python)
    if starts:  # written for an editor with cells
        return SourceText(filename, plain)
    changed = next(number for number, line in enumerate(lines) if line != python[number])
    return SourceText(filename, plain, (), changed + 1, lines[changed])


def _cell_python(lines: list[str]) -> list[str]:
    """`_python_only` after the cell's marker, comments and blank lines, which may precede a %%."""
    first = next((number for number, line in enumerate(lines)
                  if line.strip() and not line.lstrip().startswith("#")), len(lines))  # fmt: skip
    return [*lines[:first], *_python_only(lines[first:])]


def _code_cells(text: str) -> list[str]:
    try:
        cells = cells_of(text)
    except NotebookError as error:
        raise UnreadableSourceError(str(error)) from None
    return [_cell_text(cell) for cell in cells if cell.get("cell_type") == "code"]


def _cell_text(cell: dict[str, Any]) -> str:
    text = cell.get("source", cell.get("input", ""))  # nbformat 4, and 3
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def _python_only(lines: list[str]) -> list[str]:
    """Return the same number of lines, with IPython's own lines blanked out."""
    if lines and lines[0].startswith("%%"):
        magic = lines[0][2:].split(maxsplit=1)
        if not magic or magic[0] not in _PYTHON_CELL_MAGICS:
            return [""] * len(lines)
        lines = ["", *lines[1:]]
    if _is_python(lines):
        return lines
    python: list[str] = []
    goes_on = is_magic = False
    for line in lines:
        kept = ("" if is_magic else line) if goes_on else _without_magic(line)
        is_magic = is_magic if goes_on else kept != line
        goes_on = line.rstrip().endswith("\\")
        python.append(kept)
    return python


def _is_python(lines: list[str]) -> bool:
    try:
        return _error_in(lines) is None
    except (ValueError, RecursionError, MemoryError):
        return False


def _error_in(lines: list[str]) -> SyntaxError | None:
    try:
        parse("\n".join(lines))
    except SyntaxError as error:
        return error
    return None


def _without_magic(line: str) -> str:
    if found := _MAGIC.match(line):
        return f"{found['indent']}pass"
    if found := _ASSIGNED_MAGIC.match(line):
        return f"{found['target']}None"
    return line
