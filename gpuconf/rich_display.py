"""How notebooks and IPython show our values: which module draws which, imported when asked.

A value does not import what draws it: its ``_repr_html_`` and ``_repr_pretty_`` ask here.
"""

from __future__ import annotations

import importlib

from gpuconf.terminal import printable

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from typing import Any

# A type's name, and the module below gpuconf.ipython.drawing with its `html_of` and `text_of`.
_DRAWN_BY = {
    "Activation": "activation",
    "Plan": "plan",
    "Diagnosis": "diagnosis",
    "MemoryEstimate": "estimate",
    "Holdings": "holdings",
    "Report": "examination",
}


def html_of(value: object) -> str:
    """A value as a notebook shows it: a fragment of HTML, escaped, that loads nothing."""
    html: str = _drawer(value).html_of(value)
    return html


def text_of(value: object) -> str:
    """The same as text, for terminals and for notebooks that show no HTML."""
    text: str = _drawer(value).text_of(value)
    return printable(text, keep="\n\t")  # names in it may hold ESC sequences


def _drawer(value: object) -> Any:
    name = next(kind.__name__ for kind in type(value).__mro__ if kind.__name__ in _DRAWN_BY)
    return importlib.import_module(f"gpuconf.ipython.drawing.{_DRAWN_BY[name]}")
