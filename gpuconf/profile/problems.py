"""Errors in one format: what was found, the rule, where, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable

from gpuconf.basics.terminal import printable
from gpuconf.errors import ProfileError
from gpuconf.profile.nodes import Mapping, Mark, Node, Scalar, Sequence

_SHOWN_CHARACTERS = 40
_LONGEST_KEY = 100
_LEAST_LIKENESS = 0.55


def problem(
    message: str,
    *,
    mark: Mark,
    key: str | None = None,
    hint: str | None = None,
    command: str | None = None,
    kind: type[ProfileError] = ProfileError,
) -> ProfileError:
    """Build a ProfileError for ``key`` at ``mark``; without a file, the error is about an
    override."""
    key = printable(key[:_LONGEST_KEY]) if key else None
    if key:
        message = f"{key}: {message}"
    if mark.file is None:
        message = f"override {message}"
    return kind(
        message,
        hint=hint,
        command=command,
        file=mark.file,
        line=mark.line,
        column=mark.column,
        key=key,
    )


def quoted(text: str) -> str:
    """Put ``text`` in double quotes for a message, shortened and without control characters."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
    return f'"{printable(shown)}"'


def found(node: Node) -> str:
    """Describe the value at ``node`` in words: ``found a list``, ``found "6"``."""
    if isinstance(node, Mapping):
        return "found a mapping"
    if isinstance(node, Sequence):
        return "found a list"
    if node.is_empty:
        return "found no value"
    return f"found {quoted(node.text)}" + (" in quotes" if _looks_unquoted(node) else "")


def _looks_unquoted(node: Scalar) -> bool:
    """Whether this quoted text would be a number or a boolean without its quotes."""
    text = node.text.lower()
    if text in ("true", "false", "on", "off", "yes", "no"):
        return node.is_quoted
    return node.is_quoted and text.replace(".", "", 1).isdigit()


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that ``word`` was most likely meant to be, or None."""
    plain = _plain(word[:100])
    scored = [(_likeness(plain, _plain(choice)), choice) for choice in choices]
    score, best = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    return best if score >= _LEAST_LIKENESS else None


def _likeness(word: str, choice: str) -> float:
    """Return 1 for equal words, 0 for nothing in common; a substring match scores high."""
    from difflib import SequenceMatcher  # slow to import, and needed only for errors

    shorter, longer = sorted((word, choice), key=len)
    inside = 0.6 + 0.35 * len(shorter) / len(longer) if len(shorter) >= 4 else 0.0
    ratio = SequenceMatcher(None, word, choice).ratio()
    return max(ratio, inside) if shorter in longer else ratio


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "").replace(" ", "")
