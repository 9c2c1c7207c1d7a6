"""Patterns that are tried only if one of their words occurs; most lines contain none."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# Short logs end before it pays off to parse a pattern for its words.
_TRIED_FIRST = 500
_SHORTEST = 2  # characters; a single one occurs in most lines
_Words = frozenset[str]
_NONE: _Words = frozenset()


class WordedPattern:
    """A pattern, and a set of words of which every match contains at least one.

    The words are in lower case.  They are computed after the pattern has been tried 500 times; if
    no such set exists, the pattern is tried on every line.
    """

    __slots__ = ("_left", "_words", "pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        """Take the arguments of `re.compile`."""
        self.pattern = re.compile(pattern, flags)
        self._words: Sequence[str] = ()
        self._left = _TRIED_FIRST

    def search(self, text: str, folded: str) -> re.Match[str] | None:
        """Like `re.Pattern.search`; ``folded`` is ``text.casefold()``, computed once by callers."""
        if self._left:
            self._left -= 1
            if not self._left:
                self._words = tuple(words_of(self.pattern))
        elif self._words:
            for word in self._words:
                if word in folded:
                    break
            else:
                return None
        return self.pattern.search(text)


def words_of(pattern: re.Pattern[str]) -> frozenset[str]:
    """Case-folded words of which every match has at least one; empty if there is no such set."""
    try:
        name = "re._parser" if sys.version_info >= (3, 11) else "sre_parse"
        parser = importlib.import_module(name)
        parsed = parser.parse(pattern.pattern, pattern.flags)
    except (ImportError, AttributeError):  # the parser is internal to Python
        return _NONE
    words = _words_of(parsed)
    return frozenset(
        word for word in words if not any(other in word for other in words if other != word)
    )


def _words_of(parsed: Iterable[tuple[Any, Any]]) -> _Words:
    """Of the sets that each match has a word of, the one whose shortest word is longest."""
    best = _NONE
    for words in _sets(parsed):
        if _shortest(words) > _shortest(best):
            best = words
    return best if _shortest(best) >= _SHORTEST else _NONE


def _sets(parsed: Iterable[tuple[Any, Any]]) -> Iterator[_Words]:
    run = ""
    for kind, value in parsed:
        name = str(kind)
        if name == "LITERAL":
            run += chr(value)
            continue
        yield frozenset([run.casefold()])
        run = ""
        if name == "SUBPATTERN":
            yield _words_of(value[-1])
        elif name == "BRANCH":
            branches = [_words_of(each) for each in value[1]]
            yield frozenset().union(*branches) if all(branches) else _NONE
        elif name in {"MAX_REPEAT", "MIN_REPEAT"} and value[0]:
            yield _words_of(value[2])
    yield frozenset([run.casefold()])


def _shortest(words: _Words) -> int:
    return min(map(len, words), default=0)
