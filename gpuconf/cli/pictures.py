"""``--plot`` of any command: a picture that cannot be written costs no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

Drawable = TypeVar("Drawable")


class Drawn(NamedTuple):
    """A picture's outcome: its path, what to say on stderr, and the exit code for that."""

    path: str | None = None
    said: str | None = None
    code: int = 0


def drawn(draw: Callable[[Drawable, str], None], what: Drawable, path: str | None) -> Drawn:
    """Draw ``what`` into ``path``; nothing where no picture was asked for."""
    if path is None:
        return Drawn()
    try:
        draw(what, path)
    except OSError as error:
        reason = error.strerror or error
        return Drawn(None, f"gpuconf: error: --plot {path}: {reason}; no picture", 1)
    return Drawn(path, f"wrote {path}")
