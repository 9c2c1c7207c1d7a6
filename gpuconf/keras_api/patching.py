"""Wrapping functions of the frameworks, so that other callers see no difference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Wrapper = Callable[..., Any]
_MARK = "_gpuconf_wrapped"


def wrap(owner: Any, name: str, around: Wrapper, *, inherited: bool = False) -> None:
    """Make ``owner.name`` call ``around(original, *args, **kwargs)``; only where there is one.

    What ``owner`` merely inherits is left alone unless it is ``inherited``: then it alone gets a
    function of its own.  What is wrapped is not wrapped again.
    """
    original = None if owner is None else vars(owner).get(name)
    if inherited and original is None:
        original = getattr(owner, name, None)
    if original is None or getattr(original, _MARK, False):
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    setattr(wrapped, _MARK, True)
    # AutoGraph leaves alone what bears this: in a traced training step it would rewrite us.
    wrapped.autograph_info__ = {}  # type: ignore[attr-defined]
    setattr(owner, name, wrapped)
