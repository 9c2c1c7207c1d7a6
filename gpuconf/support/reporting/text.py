"""The text of a value for people, independent of its type."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def text_of(value: object) -> str:
    """The report on ``value``, as ``print`` shows it.

    The module that formats a type registers its function here (``@text_of.register``), and the
    type's ``__str__`` calls it.  So the module of a value does not import its formatter.
    """
    return repr(value)
