"""How notebooks and IPython show our values: the renderer is imported when a value is shown."""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

from gpuconf.basics.terminal import printable

Type = TypeVar("Type", bound=type)


def shown_in_notebooks(cls: Type) -> Type:
    """Give a value type the methods that notebooks and IPython look for."""
    shown: Any = cls
    shown._repr_html_ = html_of
    shown._repr_pretty_ = lambda value, printer, _cycle: printer.text(text_of(value))
    return cls


def html_of(value: object) -> str:
    """Return a value as notebook HTML: an escaped fragment that loads nothing."""
    html: str = _drawing(value).html
    return html


def text_of(value: object) -> str:
    """Return the value as text, for terminals and for notebooks that show no HTML."""
    text: str = _drawing(value).text
    return printable(text, keep="\n\t")  # names in it may contain ESC sequences


def _drawing(value: object) -> Any:
    by_type = importlib.import_module("gpuconf.ipython.drawing").BY_TYPE
    name = next(kind.__name__ for kind in type(value).__mro__ if kind.__name__ in by_type)
    return by_type[name](value)
