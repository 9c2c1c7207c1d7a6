"""Where in the user's own code we were called from."""

from __future__ import annotations

import os
import sys

from gpuconf.records import NamedTuple

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from types import FrameType

# Frames of these packages stand between the user's line and ours.
_LIBRARIES = frozenset(
    {"gpuconf", "tensorflow", "keras", "tf_keras", "importlib", "_frozen_importlib"}
    | {
        "_frozen_importlib_external",
        "jax",
        "jaxlib",
        "torch",
        "contextlib",
        "functools",
        "threading",
    }
)


class CallSite(NamedTuple):
    """A file and a line, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def user_frame() -> FrameType | None:
    """The innermost frame that belongs to none of the libraries; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = top_package(frame)
        if package not in _LIBRARIES and not frame.f_code.co_filename.startswith("<frozen"):
            return frame
        frame = frame.f_back
    return None


def top_package(frame: FrameType) -> str:
    """The top-level package whose code runs in ``frame``; "" where its globals do not say."""
    return str(frame.f_globals.get("__name__") or "").partition(".")[0]


def main_script_folder() -> str | None:
    """The folder of the script that runs; None for ``-c``, a notebook, a console script.

    A command installed into Python's own folder of programs has no project beside it.
    """
    main = sys.modules.get("__mp_main__") or sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if not isinstance(file, str) or not file:
        return None
    folder = os.path.dirname(os.path.abspath(file))
    programs = {os.path.dirname(os.path.abspath(sys.executable)), os.path.join(sys.prefix, "bin")}
    return None if folder in programs else folder


def user_call_site() -> CallSite | None:
    """File and line of :func:`user_frame`."""
    frame = user_frame()
    if frame is None:
        return None
    cell = notebook_cell(frame)
    return CallSite(cell or frame.f_code.co_filename, frame.f_lineno)


def notebook_cells(frame: FrameType) -> list[str]:
    """The source of the cells that ran so far, the first at index 1; empty outside IPython.

    IPython keeps them in a list ``In`` of the namespace that cells run in.
    """
    cells = frame.f_globals.get("In")
    return cells if isinstance(cells, list) and "get_ipython" in frame.f_globals else []


def notebook_cell(frame: FrameType) -> str | None:
    """``In [3]`` for a frame of a notebook's third cell, whose file name says nothing."""
    cells = notebook_cells(frame)
    if not cells:
        return None
    import linecache

    source = "".join(linecache.getlines(frame.f_code.co_filename)).strip()
    numbers = [n for n, cell in enumerate(cells) if n and cell.strip() == source]
    return f"In [{numbers[-1]}]" if numbers else None
