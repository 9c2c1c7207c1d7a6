"""What reads a log's lines: watchers of certain words, a keeper, and followers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class LogLine(NamedTuple):
    """A line of the log: its number, from 1 as in an editor, and its text."""

    number: int
    text: str


class Watcher(Protocol):
    """Reads the lines with certain words, in order; of many similar ones, only the first and last.

    ``phrases`` are adjacent whole words; ``parts`` also match within words.
    """

    phrases: Sequence[str]
    parts: Sequence[str]

    def see(self, line: LogLine) -> None:
        """Process a line that contains the words."""


class Keeper(Protocol):
    """Keeps all lines with certain words, and parses them at the end."""

    phrases: Sequence[str]

    def keep(self, number: int, line: bytes) -> None:
        """Keep a line; there may be millions."""


class Follower(Protocol):
    """Reads the lines after those it saw, whatever they contain."""

    wants: int

    def follow(self, line: LogLine) -> None:
        """Process a line; ``wants`` is how many more lines to pass."""
