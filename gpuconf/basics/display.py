"""How notebooks and IPython show our values: which module renders which, imported on demand.

A value does not import its renderer; its ``_repr_html_`` and ``_repr_pretty_`` call this module.
"""

from __future__ import annotations

import importlib
from typing import Any

from gpuconf.basics.terminal import printable

# A type's name, and the module below gpuconf.ipython.drawing that has its `html_of` and `text_of`.
_DRAWN_BY = {
    "Activation": "activation",
    "Plan": "plan",
    "Diagnosis": "diagnosis",
    "MemoryEstimate": "estimate",
    "Holdings": "holdings",
    "Report": "examination",
}


def html_of(value: object) -> str:
    """Return a value as notebook HTML: an escaped fragment that loads nothing."""
    html: str = _drawer(value).html_of(value)
    return html


def text_of(value: object) -> str:
    """Return the same as text, for terminals and for notebooks that show no HTML."""
    text: str = _drawer(value).text_of(value)
    return printable(text, keep="\n\t")  # names in it may contain ESC sequences


def _drawer(value: object) -> Any:
    name = next(kind.__name__ for kind in type(value).__mro__ if kind.__name__ in _DRAWN_BY)
    return importlib.import_module(f"gpuconf.ipython.drawing.{_DRAWN_BY[name]}")
