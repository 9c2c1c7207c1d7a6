"""A line's shape: its words, ignoring digits, case and punctuation.

Training logs repeat a few hundred shapes with different numbers; each shape is examined once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

_DIGITS = b"0123456789"
_NEWLINE = 0x0A


def _plainer(byte: int) -> int:
    if byte == _NEWLINE or byte > 127:
        return byte
    letter = chr(byte)
    return ord(letter.lower()) if letter.isalpha() else 0x20


_WORDS = bytes(_plainer(byte) for byte in range(256))


def shapes_of(lines: bytes) -> bytes:
    """Reduce ``lines`` to lower-case words and spaces, line by line."""
    return lines.translate(_WORDS, _DIGITS)


def phrase(text: str) -> bytes:
    """The adjacent words that a line must contain to match ``text``.

    ``CUDA_ERROR_OUT_OF_MEMORY``, ``CUDA error: out of memory`` and ``cuda error 2 (out of memory)``
    count as the same phrase.
    """
    return b" ".join(shapes_of(text.encode()).split())


def says(shape: bytes, said: bytes) -> bool:
    """Whether ``shape`` contains the words of ``said``: whole words, next to each other."""
    return said in shape and b" %b " % said in b" %b " % shape


_Value = TypeVar("_Value")


class PhraseIndex(Generic[_Value]):
    """Phrases indexed by their longest word, so that only a few are searched for in a line."""

    def __init__(self, phrases: Iterable[tuple[bytes, _Value]]) -> None:
        self._by_word: dict[bytes, list[tuple[bytes, _Value]]] = {}
        for said, value in phrases:
            longest = max(said.split(), key=len)
            self._by_word.setdefault(longest, []).append((b" %b " % said, value))
        self.words = frozenset(self._by_word)

    def said_in(self, words: Sequence[bytes]) -> list[_Value]:
        """The values of the phrases that occur in a line with these words, in word order."""
        shape = b" %b " % b" ".join(words)
        return [
            value
            for word in dict.fromkeys(words)  # not a set, whose order differs between runs
            if word in self.words
            for said, value in self._by_word[word]
            if said in shape
        ]
