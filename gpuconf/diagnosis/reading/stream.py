"""A log's lines, given to those who watch for their words; most lines are only counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from gpuconf.diagnosis.reading.encodings import decoded, whole_lines
from gpuconf.diagnosis.reading.shapes import phrase, says, shapes_of

# Of lines that differ in their numbers alone, this many are looked at, and the last.
ENOUGH_OF_A_SHAPE = 300
# A log that another program packed into one line of JSON has its newlines as two characters.
_ESCAPED_NEWLINE = b"\\n"
_LONG_LINE = 4096
_PIECE = 16384
_MOST_SHAPES = 50_000


class Line(NamedTuple):
    """A line of the log: its number, from 1, as an editor counts, and its text."""

    number: int
    text: str


class Watcher(Protocol):
    """One who reads lines that have certain words, in order, the last of many lines last.

    ``phrases`` are words next to each other; ``parts`` are found within words too.  Where
    ``of_many`` is true, every line of a shape is given, however many there are.
    """

    phrases: Sequence[str]
    parts: Sequence[str]
    of_many: bool

    def see(self, line: Line) -> None:
        """Take note of a line that has the words."""


class Follower(Protocol):
    """One who wants the lines behind those it saw, whatever is in them."""

    wants: int

    def follow(self, line: Line) -> None:
        """Take note of a line; ``wants`` tells how many more are to come."""


class LogReader:
    """Reads a log once; holds no more of it than a chunk.

    After `read`, ``line_count`` is the number of lines, and ``last`` the last that has a word.
    """

    def __init__(self, watchers: Sequence[Watcher], followers: Sequence[Follower] = ()) -> None:
        self.line_count = 0
        self.last = Line(0, "")
        self._followers = followers
        self._by_word: dict[bytes, list[tuple[bytes, Watcher]]] = {}
        self._parts: list[tuple[bytes, Watcher]] = []
        for watcher in watchers:
            for said in map(phrase, watcher.phrases):
                self._by_word.setdefault(max(said.split(), key=len), []).append((said, watcher))
            self._parts += [(phrase(part), watcher) for part in watcher.parts]
        self._words = set(self._by_word)
        self._order = {id(watcher): index for index, watcher in enumerate(watchers)}
        self._known: dict[bytes, _Seen | None] = {}

    def read(self, chunks: Iterable[bytes]) -> None:
        """Show every line of ``chunks`` to those whose words it has."""
        for chunk in whole_lines(chunks):
            self._read(chunk)
        rest = [seen.unshown for seen in self._known.values() if seen and seen.unshown]
        for number, line, watchers in sorted(rest, key=lambda each: each[0]):
            _show(Line(number, decoded(line)), watchers)

    def _read(self, chunk: bytes) -> None:
        known, followers = self._known, self._followers
        last: tuple[int, bytes] | None = None
        for number, line, shape in self._numbered(chunk):
            try:
                seen = known[shape]
            except KeyError:
                seen = self._first_of_shape(shape)
            for follower in followers:
                if follower.wants:
                    follower.follow(Line(number, decoded(line)))
            if seen is not None:
                seen.show(number, line)
            if shape:
                last = number, line
        if last is not None:
            self.last = Line(last[0], decoded(last[1]))

    def _numbered(self, chunk: bytes) -> Iterator[tuple[int, bytes, bytes]]:
        """The chunk's lines with their numbers and shapes; what was written over, too."""
        ends = chunk.endswith(b"\n")
        lines = chunk.split(b"\n")
        shapes = shapes_of(chunk).split(b"\n")
        first = self.line_count + 1
        count = len(lines) - ends
        self.line_count += count
        if b"\r" not in chunk and max(map(len, lines)) < _LONG_LINE:
            yield from zip(range(first, first + count), lines, shapes)  # noqa: B905  # the end's ""
            return
        for number, line, shape in zip(range(first, first + count), lines, shapes):  # noqa: B905
            if len(line) < _LONG_LINE and b"\r" not in line:
                yield number, line, shape
            else:
                for piece in _pieces(line):
                    yield number, piece, shapes_of(piece)

    def _first_of_shape(self, shape: bytes) -> _Seen | None:
        if len(self._known) >= _MOST_SHAPES:
            self._forget()
        watchers = self._watchers_of(shape)
        seen = self._known[shape] = _Seen(watchers) if watchers else None
        return seen

    def _forget(self) -> None:
        """Drop the shapes that nobody watches; the log has too many."""
        self._known = {shape: seen for shape, seen in self._known.items() if seen is not None}
        if len(self._known) > _MOST_SHAPES // 2:
            self._known = {}

    def _watchers_of(self, shape: bytes) -> list[Watcher]:
        found = {id(watcher): watcher for part, watcher in self._parts if part in shape}
        words = shape.split()
        if not self._words.isdisjoint(words):
            single = b" ".join(words)
            for word in self._words.intersection(words):
                for said, watcher in self._by_word[word]:
                    if says(single, said):
                        found[id(watcher)] = watcher
        return sorted(found.values(), key=lambda watcher: self._order[id(watcher)])


class _Seen:
    """Who watches lines of one shape, how many were shown, and the last that was not."""

    __slots__ = ("_all", "_count", "_some", "unshown")

    def __init__(self, watchers: list[Watcher]) -> None:
        self._all = [watcher for watcher in watchers if watcher.of_many]
        self._some = [watcher for watcher in watchers if not watcher.of_many]
        self._count = 0
        self.unshown: tuple[int, bytes, list[Watcher]] | None = None

    def show(self, number: int, line: bytes) -> None:
        self._count += 1
        if self._count <= ENOUGH_OF_A_SHAPE:
            _show(Line(number, decoded(line)), self._all)
            _show(Line(number, decoded(line)), self._some)
            return
        if self._all:
            _show(Line(number, decoded(line)), self._all)
        if self._some:
            self.unshown = number, line, self._some


def _show(line: Line, watchers: Sequence[Watcher]) -> None:
    for watcher in watchers:
        watcher.see(line)


def _pieces(line: bytes) -> Iterator[bytes]:
    """What a progress bar wrote one over the other, and a long line in pieces."""
    for over in line.split(b"\r"):
        if len(over) < _LONG_LINE:
            yield over
            continue
        for text in over.split(_ESCAPED_NEWLINE):
            for start in range(0, len(text), _PIECE):
                yield text[start : start + _PIECE]
