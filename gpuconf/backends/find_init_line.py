"""Find, in the source code, the line of user code that most likely created the devices.

gpuconf was not loaded when it happened, so this looks at what ran before: the file or the notebook
cells up to the line that called us, then the modules that the program imported.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

from gpuconf.basics.callsite import is_installed, notebook_cells, user_frame
from gpuconf.errors import TooLateError

_WHOLE_FILE = sys.maxsize


class _EarlierSource(NamedTuple):
    """Source that ran before us, up to ``before_line``."""

    name: str
    source: str
    before_line: int = _WHOLE_FILE


FIRST_LINE = (
    "make `import gpuconf.auto` the first line of the script, or of the notebook after a kernel "
    "restart"
)


def too_late(
    what: str, makers: frozenset[str], then: str, *, argument: str | None = None
) -> TooLateError:
    """Build an error saying ``what`` was done before gpuconf was imported, with the likely line."""
    likely = line_that_initialized_gpus(makers, argument=argument)
    where = "before gpuconf was imported" + (f", most likely at {likely}" if likely else "")
    return TooLateError(f"{what} {where}{then}", hint=FIRST_LINE)


def line_that_initialized_gpus(
    makers: frozenset[str], *, argument: str | None = None
) -> str | None:
    """Return ``file:line (source)`` of the first call to a name in ``makers``; None if there is
    none.

    A call with the keyword ``argument`` also counts, whatever its name.  Only calls that run when
    the file runs count, not those in functions and classes.
    """
    frame = user_frame()
    if frame is None:
        return None
    for place in _places(frame):
        line = _first_call(place, makers, argument)
        if line is not None:
            text = place.source.splitlines()[line - 1].strip()
            return f"{place.name}:{line} ({text})"
    return None


def _places(frame: FrameType) -> Iterator[_EarlierSource]:
    for number, cell in enumerate(notebook_cells(frame)[1:-1], start=1):
        yield _EarlierSource(f"In [{number}]", str(cell))
    filename = frame.f_code.co_filename
    source = "".join(linecache.getlines(filename, frame.f_globals))
    yield _EarlierSource(filename, source, frame.f_lineno)
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        ours = getattr(module, "__name__", "").partition(".")[0] == "gpuconf"
        if path.endswith(".py") and not is_installed(path) and not ours and path != filename:
            yield _EarlierSource(path, "".join(linecache.getlines(path)))


def _first_call(place: _EarlierSource, makers: frozenset[str], argument: str | None) -> int | None:
    try:
        tree = ast.parse(place.source)
    except (SyntaxError, ValueError):
        return None
    lines = [
        node.lineno
        for statement in tree.body
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
        and node.lineno < place.before_line
        and (_called_name(node) in makers or (argument is not None and _has(node, argument)))
    ]
    return min(lines, default=None)


def _has(call: ast.Call, argument: str) -> bool:
    return any(keyword.arg == argument for keyword in call.keywords)


def _called_name(call: ast.Call) -> str:
    """Return ``constant`` for ``tf.constant(…)``, ``Adam`` for ``Adam(…)``."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))
