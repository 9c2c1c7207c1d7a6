"""A function that answers a request, called with the request's own arguments.

So that what `stream` and `sequence` take stands in one place, with its defaults.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
Asked = TypeVar("Asked")


def answering(
    request: Callable[P, Asked],
) -> Callable[[Callable[[Asked], Any]], Callable[P, Any]]:
    """Make a function of a request one of its arguments, as ``help`` and type checkers see it."""
    signature = inspect.signature(request)

    def decorate(make: Callable[[Asked], Any]) -> Callable[P, Any]:
        @functools.wraps(make)
        def answer(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{make.__name__}() {error}") from None
            return make(request(*args, **kwargs))

        shown = signature.replace(return_annotation="Any")
        answer.__signature__ = shown  # type: ignore[attr-defined]
        return answer

    return decorate
