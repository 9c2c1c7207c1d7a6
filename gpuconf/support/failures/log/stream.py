"""Passes a log's lines to the watchers of their words; most lines are only counted."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain, repeat
from operator import itemgetter

from gpuconf.support.failures.log.encodings import decoded, whole_lines
from gpuconf.support.failures.log.shapes import shapes_of
from gpuconf.support.failures.log.watchers import (
    NOT_MET,
    Follower,
    Keeper,
    LogLine,
    ShapeState,
    ShapeWatchers,
    Watcher,
)

# If lines differ only in their numbers, only this many are examined, plus the last two.
ENOUGH_OF_A_SHAPE = 100
# After this many lines, only the latest lines that may matter are kept, for the end. A long line
# counts as several, one per _COUNTS_AS_ONE bytes.
_MOST_SHOWN = 20_000
_LATEST = 10_000
_COUNTS_AS_ONE = 512
# Addresses in an allocator's dump, which would give every line a different shape.
_ADDRESS = re.compile(rb" at (?:0x)?[0-9a-f]{4,16} of size ")
_LONG_LINE = 4096
_PIECE = 16384
# A log that another program packed into one line of JSON has escaped newlines.
_ESCAPED_NEWLINE = b"\\n"


class LogReader:
    """Reads a log once; holds only one chunk and the keeper's lines in memory.

    After `read`, ``line_count`` is the number of lines, and ``last`` the last line with a word.
    """

    def __init__(
        self, watchers: Sequence[Watcher], followers: Sequence[Follower], keeper: Keeper
    ) -> None:
        self.line_count = 0
        self.last = LogLine(0, "")
        self._followers, self._keeper = followers, keeper
        self._shapes = ShapeWatchers(watchers, keeper)
        self._is_followed = False
        self._shown = 0
        self._latest: deque[tuple[int, bytes, Sequence[Watcher]]] = deque()
        self._latest_cost = 0

    def read(self, chunks: Iterable[bytes]) -> None:
        """Show every line of ``chunks`` to the watchers of its words."""
        rows = _LogRows()
        for chunk in whole_lines(chunks):
            self._read(*rows.of(chunk))
        self.line_count = rows.count
        rest = [*self._shapes.unshown(), *self._latest]
        for number, line, watchers in sorted(rest, key=itemgetter(0)):
            _show(LogLine(number, decoded(line)), watchers)

    def _read(self, numbers: Sequence[int], lines: list[bytes], text: bytes) -> None:
        shapes = _shapes(text).split(b"\n")
        watched, states = self._shapes.watched(set(shapes)), self._shapes.states
        counted = {shape for shape in watched if states[shape].is_only_counted}
        for shape, places in _last_two(counted, shapes).items():
            states[shape].leave_out(*((numbers[place], lines[place]) for place in places))
        self._look_at(watched - counted, shapes, numbers, lines)
        kept = {shape for shape in watched if shape in states and states[shape].kept}
        for place in _places_of(kept, shapes):
            self._keeper.keep(numbers[place], lines[place])
        for place in range(len(lines) - 1, -1, -1):
            if shapes[place].strip():
                self.last = LogLine(numbers[place], decoded(lines[place]))
                break

    def _look_at(
        self,
        wanted: Set[bytes],
        shapes: Sequence[bytes],
        numbers: Sequence[int],
        lines: Sequence[bytes],
    ) -> None:
        """Show the lines of these shapes one by one, in order; followers get lines in between."""
        followed = 0
        for place in _places_of(wanted, shapes):
            seen = self._shapes.states.get(shapes[place])
            if seen is NOT_MET:
                seen = self._shapes.meet(shapes[place], late=self._shown >= _MOST_SHOWN)
            if self._is_followed:
                self._follow(numbers, lines, range(followed, place + 1))
            followed = place + 1
            if seen is not None and seen.watchers:
                self._meet(seen, numbers[place], lines[place])
        if self._is_followed:
            self._follow(numbers, lines, range(followed, len(lines)))

    def _meet(self, seen: ShapeState, number: int, line: bytes) -> None:
        seen.count += 1
        if seen.late:
            self._latest.append((number, line, seen.watchers))
            self._latest_cost += _cost(line)
            while self._latest_cost > _LATEST:
                self._latest_cost -= _cost(self._latest.popleft()[1])
        elif seen.count <= ENOUGH_OF_A_SHAPE:
            self._shown += _cost(line)
            _show(LogLine(number, decoded(line)), seen.watchers)
            self._is_followed = True
        else:
            seen.leave_out((number, line))

    def _follow(self, numbers: Sequence[int], lines: Sequence[bytes], places: range) -> None:
        """Show lines to the followers of an earlier line, as long as they want more."""
        for place in places:
            wanting = [follower for follower in self._followers if follower.wants]
            if not wanting:
                self._is_followed = False
                break
            for follower in wanting:
                follower.follow(LogLine(numbers[place], decoded(lines[place])))


def _places_of(wanted: Set[bytes], shapes: Sequence[bytes]) -> list[int]:
    return [place for place, shape in enumerate(shapes) if shape in wanted] if wanted else []


def _last_two(wanted: Set[bytes], shapes: Sequence[bytes]) -> dict[bytes, list[int]]:
    """The positions of the last two lines of each wanted shape, in order, or of its only line."""
    found: dict[bytes, list[int]] = {shape: [] for shape in wanted}
    missing = set(wanted)
    for place in range(len(shapes) - 1, -1, -1):
        if not missing:
            break
        shape = shapes[place]
        if shape in missing:
            found[shape].insert(0, place)
            if len(found[shape]) == 2:
                missing.remove(shape)
    return found


def _show(line: LogLine, watchers: Iterable[Watcher]) -> None:
    for watcher in watchers:
        watcher.see(line)


def _cost(line: bytes) -> int:
    return 1 + len(line) // _COUNTS_AS_ONE


def _shapes(lines: bytes) -> bytes:
    if b" of size " in lines:
        lines = _ADDRESS.sub(b" at of size ", lines)
    return shapes_of(lines)


class _LogRows:
    """Splits successive chunks into lines; ``count`` is the number of the last line so far."""

    def __init__(self) -> None:
        self.count = 0
        self._is_open = False  # whether the next chunk continues the same line

    def of(self, chunk: bytes) -> tuple[Sequence[int], list[bytes], bytes]:
        """The chunk's lines: their numbers, their bytes, and all lines as one text.

        Each overwritten state of a progress bar is a line too, and so is each piece of a long line:
        all have the number of their line in the file.
        """
        if self._is_open and chunk.startswith((b"\r", b"\n")):  # the end of the previous line
            self._is_open = chunk.startswith(b"\r")
            chunk = chunk[1:]
        if not chunk:
            return (), [], b""
        first = self.count + (not self._is_open)
        self._is_open = not chunk.endswith(b"\n")
        text = chunk.removesuffix(b"\n")
        lines = text.split(b"\n")
        self.count = first + len(lines) - 1
        numbers: Sequence[int] = range(first, self.count + 1)
        if b"\r" in text:
            times = [line.count(b"\r") + 1 for line in lines]
            numbers = [*chain.from_iterable(map(repeat, numbers, times))]
            text = text.replace(b"\r", b"\n")
            lines = text.split(b"\n")
        if (b"\\" in text and _ESCAPED_NEWLINE in text) or _has_a_long_line(text):
            pieces = [[*_pieces(line)] for line in lines]
            numbers = [*chain.from_iterable(map(repeat, numbers, map(len, pieces)))]
            lines = [*chain.from_iterable(pieces)]
            text = b"\n".join(lines)
        return numbers, lines, text


def _has_a_long_line(text: bytes) -> bool:
    start = 0
    while start + _LONG_LINE <= len(text):
        end = text.rfind(b"\n", start, start + _LONG_LINE)
        if end < 0:
            return True
        start = end + 1
    return False


def _pieces(line: bytes) -> Iterator[bytes]:
    """The line, or several: the lines packed into one line of JSON, the parts of a long line."""
    if len(line) >= _LONG_LINE:
        for text in line.split(_ESCAPED_NEWLINE):
            start = 0
            while start < len(text):
                end = start + _PIECE
                if end < len(text):  # do not split a word
                    end = text.rfind(b" ", start, end) + 1 or end
                yield text[start:end]
                start = end
    elif line.startswith(b"{") and line.count(_ESCAPED_NEWLINE) > 1:
        yield from line.split(_ESCAPED_NEWLINE)
    else:
        yield line
