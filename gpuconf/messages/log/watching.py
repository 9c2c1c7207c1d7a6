"""What those who read a log's lines are to the one who shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Line(NamedTuple):
    """A line of the log: its number, from 1, as an editor counts, and its text."""

    number: int
    text: str


class Watcher(Protocol):
    """One who reads lines that have certain words, in order, the last of many lines last.

    ``phrases`` are words next to each other; ``parts`` are found within words too.
    """

    phrases: Sequence[str]
    parts: Sequence[str]

    def see(self, line: Line) -> None:
        """Take note of a line that has the words."""


class Keeper(Protocol):
    """One who keeps all lines that have certain words, as they come, and reads them at the end."""

    phrases: Sequence[str]

    def keep(self, number: int, line: bytes) -> None:
        """Keep a line; there may be millions."""


class Follower(Protocol):
    """One who wants the lines behind those it saw, whatever is in them."""

    wants: int

    def follow(self, line: Line) -> None:
        """Take note of a line; ``wants`` tells how many more are to come."""
