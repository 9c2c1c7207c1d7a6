"""A value's text for people, whoever writes it."""

from __future__ import annotations

from functools import singledispatch


@singledispatch
def text_of(value: object) -> str:
    """The report of ``value``, as ``print`` shows it.

    The file that writes a type's report registers it here (``@text_of.register``), and the
    type's ``__str__`` asks here: so a value's file imports no printer.
    """
    return repr(value)
