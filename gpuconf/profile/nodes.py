"""A YAML document as plain text with places: nothing is resolved, nothing is constructed.

Scalars keep the text that was written.  What ``on``, ``1`` or ``none`` means is decided by the
key above it, never by YAML 1.1's guesses, so that ``env: {X: on}`` is the text
``on`` and ``gpus: none`` the word ``none``.
"""

from __future__ import annotations

from gpuconf.records import NamedTuple

_NULLS = frozenset(("~", "null", "Null", "NULL"))


class Mark(NamedTuple):
    """Where something was written; line and column count from 1.  All None: given in code."""

    file: str | None = None
    line: int | None = None
    column: int | None = None


class Scalar(NamedTuple):
    """One value.  ``is_quoted`` holds for quoted and block text, which is text and only text."""

    text: str
    is_quoted: bool
    mark: Mark

    @property
    def is_empty(self) -> bool:
        """Nothing was written after the colon."""
        return not self.text and not self.is_quoted

    @property
    def is_null(self) -> bool:
        """An explicit ``null`` or ``~``."""
        return not self.is_quoted and self.text in _NULLS


class Sequence(NamedTuple):
    """A list."""

    items: tuple[Node, ...]
    mark: Mark


class Entry(NamedTuple):
    """The place of a key, and its value."""

    key_mark: Mark
    value: Node


class Mapping(NamedTuple):
    """Keys with values, in the order of the file."""

    entries: dict[str, Entry]
    mark: Mark

    def get(self, name: str) -> Node | None:
        """The value of ``name``, or None where it is not written."""
        entry = self.entries.get(name)
        return None if entry is None else entry.value


Node = Scalar | Sequence | Mapping


def locate(root: Mapping, key: str) -> Node | None:
    """The node at the dotted ``key``, such as ``memory.keep_free``; None if not written."""
    node: Node | None = root
    for name in key.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def merged(lower: Mapping, upper: Mapping) -> Mapping:
    """``upper`` laid over ``lower``: mappings are merged key by key, all else is replaced.

    A section with nothing written under it says nothing.  Nulls are kept: they remove what
    is below them, here and when ``per_gpu`` is laid over the profile's own rules.
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
