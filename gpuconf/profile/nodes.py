"""A YAML document as plain text with positions: nothing is resolved or constructed.

Scalars keep the text as written. The key above a scalar decides what ``on``, ``1`` or ``none``
means; YAML 1.1's guessing rules never do. So ``env: {X: on}`` is the text ``on``, and ``gpus:
none`` is the word ``none``.
"""

from __future__ import annotations

from typing import NamedTuple

_NULLS = frozenset(("~", "null", "Null", "NULL"))


class Mark(NamedTuple):
    """The position of a value; line and column are counted from 1. All fields are None for a value
    given in code."""

    file: str | None = None
    line: int | None = None
    column: int | None = None


class Scalar(NamedTuple):
    """One value.  ``is_quoted`` is true for quoted and block scalars, which are always text."""

    text: str
    is_quoted: bool
    mark: Mark

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written after the colon."""
        return not self.text and not self.is_quoted

    @property
    def is_null(self) -> bool:
        """Whether the scalar is an explicit ``null`` or ``~``."""
        return not self.is_quoted and self.text in _NULLS


class Sequence(NamedTuple):
    """A list."""

    items: tuple[Node, ...]
    mark: Mark


class Entry(NamedTuple):
    """The position of a key, and its value."""

    key_mark: Mark
    value: Node


class Mapping(NamedTuple):
    """Keys with values, in file order."""

    entries: dict[str, Entry]
    mark: Mark

    def get(self, name: str) -> Node | None:
        """Return the value of ``name``, or None if it is not written."""
        entry = self.entries.get(name)
        return None if entry is None else entry.value


Node = Scalar | Sequence | Mapping


def locate(root: Mapping, key: str) -> Node | None:
    """Return the node at the dotted ``key``, such as ``memory.keep_free``; None if not written."""
    node: Node | None = root
    for name in key.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def merged(lower: Mapping, upper: Mapping) -> Mapping:
    """Merge ``upper`` over ``lower``: merge mappings key by key, and replace everything else.

    An empty section changes nothing.  Nulls are kept: they remove the inherited value, here and
    when ``per_gpu`` is merged over the profile's own rules.
    """
    entries = dict(lower.entries)
    for name, entry in upper.entries.items():
        below = lower.get(name)
        if isinstance(below, Mapping):
            if isinstance(entry.value, Mapping):
                entry = Entry(entry.key_mark, merged(below, entry.value))  # noqa: PLW2901
            elif isinstance(entry.value, Scalar) and entry.value.is_empty:
                continue
        entries[name] = entry
    return Mapping(entries, upper.mark)
