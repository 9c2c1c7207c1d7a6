"""Wrap framework functions so that other callers see no difference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Wrapper = Callable[..., Any]
_MARK = "_gpuconf_wrapped"


def wrap(owner: Any, name: str, around: Wrapper, *, inherited: bool = False) -> None:
    """Make ``owner.name``, if it exists, call ``around(original, *args, **kwargs)``.

    A name that ``owner`` merely inherits is skipped, unless ``inherited`` is True: then only
    ``owner`` gets the wrapper.  A function that is already wrapped is not wrapped again.
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
    # AutoGraph skips functions with this attribute; otherwise it would rewrite ours while tracing.
    wrapped.autograph_info__ = {}  # type: ignore[attr-defined]
    setattr(owner, name, wrapped)
