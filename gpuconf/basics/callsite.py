"""The line of user code that called us."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import NamedTuple

# Packages whose frames lie between the user's line and ours.
_LIBRARIES = frozenset(
    (
        *("gpuconf", "tensorflow", "keras", "tf_keras", "jax", "jaxlib", "torch"),
        *("importlib", "_frozen_importlib", "_frozen_importlib_external"),
        *("contextlib", "functools", "threading"),
    )
)


class CallSite(NamedTuple):
    """A file and a line, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def user_frame() -> FrameType | None:
    """Return the innermost frame outside these libraries; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = top_package(frame)
        if package not in _LIBRARIES and not frame.f_code.co_filename.startswith("<frozen"):
            return frame
        frame = frame.f_back
    return None


def top_package(frame: FrameType) -> str:
    """Return the top-level package whose code runs in ``frame``; "" if its globals do not say."""
    return str(frame.f_globals.get("__name__") or "").partition(".")[0]


def is_installed(path: str) -> bool:
    """Whether a module's file belongs to Python or to a package, rather than to the program."""
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    return "site-packages" in path or path.startswith(tuple(each + os.sep for each in folders))


def main_script_folder() -> str | None:
    """Return the folder of the running script; None for ``-c``, a notebook or an installed program.

    A command in Python's own program folder, and a package run with ``python -m`` from
    site-packages, have no project next to them.
    """
    main = sys.modules.get("__mp_main__") or sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if not isinstance(file, str) or not file:
        return None
    folder = os.path.dirname(os.path.abspath(file))
    programs = {os.path.dirname(os.path.abspath(sys.executable)), os.path.join(sys.prefix, "bin")}
    is_package = not {"site-packages", "dist-packages"}.isdisjoint(folder.split(os.sep))
    is_standard = os.path.join(folder, "").startswith(
        os.path.join(os.path.dirname(os.__file__), "")
    )
    return None if folder in programs or is_package or is_standard else folder


def user_call_site() -> CallSite | None:
    """Return the file and line of :func:`user_frame`."""
    frame = user_frame()
    if frame is None:
        return None
    cell = notebook_cell(frame)
    return CallSite(cell or frame.f_code.co_filename, frame.f_lineno)


def notebook_cells(frame: FrameType) -> list[str]:
    """Return the source of the cells run so far, the first at index 1; empty outside IPython.

    IPython keeps them in the list ``In`` of the cells' namespace.
    """
    cells = frame.f_globals.get("In")
    return cells if isinstance(cells, list) and "get_ipython" in frame.f_globals else []


def notebook_cell(frame: FrameType) -> str | None:
    """Return ``In [3]`` for a frame of a notebook's third cell, whose file name is meaningless."""
    cells = notebook_cells(frame)
    if not cells:
        return None
    import linecache

    source = "".join(linecache.getlines(frame.f_code.co_filename)).strip()
    numbers = [n for n, cell in enumerate(cells) if n and cell.strip() == source]
    return f"In [{numbers[-1]}]" if numbers else None
