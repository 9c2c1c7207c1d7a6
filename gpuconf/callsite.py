"""Where in the user's own code we were called from."""

from __future__ import annotations

import sys
from types import FrameType
from typing import NamedTuple

# Frames of these packages stand between the user's line and ours.
_LIBRARIES = frozenset(
    {"gpuconf", "tensorflow", "keras", "tf_keras", "importlib", "_frozen_importlib"}
    | {"_frozen_importlib_external", "jax", "torch", "contextlib", "functools", "threading"}
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
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in _LIBRARIES and not frame.f_code.co_filename.startswith("<frozen"):
            return frame
        frame = frame.f_back
    return None


def user_call_site() -> CallSite | None:
    """File and line of :func:`user_frame`."""
    frame = user_frame()
    return None if frame is None else CallSite(frame.f_code.co_filename, frame.f_lineno)
