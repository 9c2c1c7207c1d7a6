"""A log's lines, given to those who watch for their words; most lines are only counted."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from gpuconf.diagnosis.reading.encodings import decoded, whole_lines
from gpuconf.diagnosis.reading.shapes import phrase, says, shapes_of

# Of lines that differ in their numbers alone, this many are looked at, and the last.
ENOUGH_OF_A_SHAPE = 100
# A log that another program packed into one line of JSON has its newlines as two characters.
_ESCAPED_NEWLINE = b"\\n"
_LONG_LINE = 4096
_PIECE = 16384
_MOST_SHAPES = 50_000
# After so many lines have been looked at, only the latest that may matter are kept, for the end.
_MOST_SHOWN = 20_000
_LATEST = 10_000
# The addresses in an allocator's dump, which would give each of its lines a shape of its own.
_ADDRESS = re.compile(rb" at (?:0x)?[0-9a-f]{4,16} of size ")


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


class LogReader:
    """Reads a log once; holds no more of it than a chunk, and what its keeper keeps.

    After `read`, ``line_count`` is the number of lines, and ``last`` the last that has a word.
    """

    def __init__(
        self, watchers: Sequence[Watcher], followers: Sequence[Follower], keeper: Keeper
    ) -> None:
        self.line_count = 0
        self.last = Line(0, "")
        self._followers, self._keeper = followers, keeper
        self._watchers = watchers
        self._by_word: dict[bytes, list[tuple[bytes, int]]] = {}
        self._parts: list[tuple[bytes, int]] = []
        phrases = [keeper.phrases, *(watcher.phrases for watcher in watchers)]
        for place, texts in enumerate(phrases, -1):  # the keeper is -1
            for said in map(phrase, texts):
                self._by_word.setdefault(max(said.split(), key=len), []).append((said, place))
        for place, watcher in enumerate(watchers):
            self._parts += [(phrase(part), place) for part in watcher.parts]
        self._words = set(self._by_word)
        self._known: dict[bytes, _Seen | None] = {}
        self._shown = 0
        self._latest: deque[tuple[int, bytes, bytes]] = deque(maxlen=_LATEST)

    def read(self, chunks: Iterable[bytes]) -> None:
        """Show every line of ``chunks`` to those whose words it has."""
        for chunk in whole_lines(chunks):
            self._read(chunk)
        rest = [seen.unshown for seen in self._known.values() if seen and seen.unshown]
        for number, line, shape in sorted({*rest, *self._latest}):
            seen = self._seen(shape)
            if seen is not None:
                self._show(Line(number, decoded(line)), seen.watchers)

    def _read(self, chunk: bytes) -> None:
        known, followers = self._known, self._followers
        last: tuple[int, bytes] | None = None
        for number, line, shape in self._numbered(chunk):
            try:
                seen = known[shape]
            except KeyError:
                seen = self._first_of_shape(number, line, shape)
                known = self._known
            for follower in followers:
                if follower.wants:
                    follower.follow(Line(number, decoded(line)))
            if seen is not None:
                self._meet(seen, number, line, shape)
            if shape:
                last = number, line
        if last is not None:
            self.last = Line(last[0], decoded(last[1]))

    def _meet(self, seen: _Seen, number: int, line: bytes, shape: bytes) -> None:
        if seen.kept:
            self._keeper.keep(number, line)
        if not seen.watchers:
            return
        seen.count += 1
        if seen.count <= ENOUGH_OF_A_SHAPE:
            self._show(Line(number, decoded(line)), seen.watchers)
        else:
            seen.unshown = number, line, shape

    def _show(self, line: Line, watchers: Sequence[Watcher]) -> None:
        self._shown += 1
        for watcher in watchers:
            watcher.see(line)

    def _numbered(self, chunk: bytes) -> Iterator[tuple[int, bytes, bytes]]:
        """The chunk's lines with their numbers and shapes; what was written over, too."""
        ends = chunk.endswith(b"\n")
        lines = chunk.split(b"\n")
        shapes = _shapes(chunk).split(b"\n")
        first = self.line_count + 1
        count = len(lines) - ends
        self.line_count += count
        each = zip(range(first, first + count), lines, shapes)  # noqa: B905  # the end is empty
        if b"\r" not in chunk and max(map(len, lines)) < _LONG_LINE:
            return each
        return self._in_pieces(each)

    @staticmethod
    def _in_pieces(
        lines: Iterable[tuple[int, bytes, bytes]],
    ) -> Iterator[tuple[int, bytes, bytes]]:
        for number, line, shape in lines:
            if len(line) < _LONG_LINE and b"\r" not in line:
                yield number, line, shape
                continue
            pieces = [*_pieces(line)]
            for piece, piece_shape in zip(pieces, _shapes(b"\n".join(pieces)).split(b"\n")):  # noqa: B905
                yield number, piece, piece_shape

    def _first_of_shape(self, number: int, line: bytes, shape: bytes) -> _Seen | None:
        if self._shown > _MOST_SHOWN and self._may_matter(shape):
            self._latest.append((number, line, shape))
            return None
        if len(self._known) >= _MOST_SHAPES:
            watched: dict[bytes, _Seen | None] = {
                shape: seen for shape, seen in self._known.items() if seen is not None
            }
            self._known = watched if len(watched) < _MOST_SHAPES // 2 else {}
        seen = self._known[shape] = self._seen(shape)
        return seen

    def _may_matter(self, shape: bytes) -> bool:
        if not self._words.isdisjoint(shape.split()):
            return True
        # A generator would cost as much again, for each line of a log.
        for part, _ in self._parts:  # noqa: SIM110
            if part in shape:
                return True
        return False

    def _seen(self, shape: bytes) -> _Seen | None:
        if not self._may_matter(shape):
            return None
        words = shape.split()
        single = b" ".join(words)
        places = {place for part, place in self._parts if part in shape}
        for word in self._words.intersection(words):
            places |= {place for said, place in self._by_word[word] if says(single, said)}
        if not places:
            return None
        watchers = [self._watchers[place] for place in sorted(places) if place >= 0]
        return _Seen(watchers, kept=-1 in places)


class _Seen:
    """Who watches lines of one shape, how many there were, and the last that was not shown."""

    __slots__ = ("count", "kept", "unshown", "watchers")

    def __init__(self, watchers: list[Watcher], *, kept: bool) -> None:
        self.watchers, self.kept = watchers, kept
        self.count = 0
        self.unshown: tuple[int, bytes, bytes] | None = None


def _shapes(lines: bytes) -> bytes:
    if b" of size " in lines:
        lines = _ADDRESS.sub(b" at of size ", lines)
    return shapes_of(lines)


def _pieces(line: bytes) -> Iterator[bytes]:
    """What a progress bar wrote one over the other, and a long line in pieces."""
    for over in line.split(b"\r"):
        if len(over) < _LONG_LINE:
            yield over
            continue
        for text in over.split(_ESCAPED_NEWLINE):
            for start in range(0, len(text), _PIECE):
                yield text[start : start + _PIECE]
