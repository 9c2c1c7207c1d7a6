"""The human-readable text of a value, independent of its type."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def text_of(value: object) -> str:
    """The report on ``value``, as ``print`` shows it.

    The module that formats a type registers its function here (``@text_of.register``), and the
    type's ``__str__`` calls it.  So a value's module does not import its formatter.
    """
    return repr(value)
