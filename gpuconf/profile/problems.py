"""Refusals in one shape: what was found, the rule, where, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable

from gpuconf.errors import ProfileError
from gpuconf.profile.nodes import Mapping, Mark, Node, Scalar, Sequence

_SHOWN_CHARACTERS = 40


def problem(
    message: str, *, mark: Mark, key: str | None = None, hint: str | None = None
) -> ProfileError:
    """A ProfileError for ``key`` at ``mark``; without a file it speaks of an override."""
    if key:
        message = f"{key}: {message}"
    if mark.file is None:
        message = f"override {message}"
    return ProfileError(
        message, hint=hint, file=mark.file, line=mark.line, column=mark.column, key=key
    )


def quoted(text: str) -> str:
    """``text`` in double quotes for a message: shortened, and without control characters."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
    return '"' + "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown) + '"'


def found(node: Node) -> str:
    """What stands at ``node``, in words: ``found a list``, ``found "6"``."""
    if isinstance(node, Mapping):
        return "found a mapping"
    if isinstance(node, Sequence):
        return "found a list"
    if node.is_empty:
        return "found no value"
    return f"found {quoted(node.text)}" + (" in quotes" if _looks_unquoted(node) else "")


def _looks_unquoted(node: Scalar) -> bool:
    """True for quoted text that would be a number or a boolean without its quotes."""
    text = node.text.lower()
    if text in ("true", "false", "on", "off", "yes", "no"):
        return node.is_quoted
    return node.is_quoted and text.replace(".", "", 1).isdigit()


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The one of ``choices`` that ``word`` was most likely meant to be, or None."""
    by_plain = {_plain(choice): choice for choice in choices}
    plain = _plain(word[:100])
    if plain in by_plain:
        return by_plain[plain]
    from difflib import get_close_matches  # slow to import, and only a mistake needs it

    close = get_close_matches(plain, by_plain, n=1, cutoff=0.7)
    if close:
        return by_plain[close[0]]
    inside = [p for p in by_plain if len(plain) >= 4 and (plain in p or p in plain)]
    if inside:
        return by_plain[min(inside, key=lambda p: abs(len(p) - len(plain)))]
    close = get_close_matches(plain, by_plain, n=1, cutoff=0.55)
    return by_plain[close[0]] if close else None


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "").replace(" ", "")
