"""Passes each line of a log to the watchers registered for words in it.

A line's shape is looked up once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from gpuconf.support.failures.log.encodings import decoded, whole_lines
from gpuconf.support.failures.log.shapes import PhraseIndex, phrase, shapes_of
from gpuconf.support.failures.log.watchers import Follower, Keeper, LogLine, Watcher

# If lines differ only in their numbers, only this many are examined, plus the last two.
ENOUGH_OF_A_SHAPE = 100
# After this many lines, only the latest lines that may matter are kept, for the end. A long line
# counts as several, one per _COUNTS_AS_ONE bytes.
_MOST_SHOWN = 20_000
_LATEST = 10_000
_COUNTS_AS_ONE = 512
# Shapes are remembered until either limit is reached.
_MOST_SHAPES = 25_000
_MOST_BYTES = 8 << 20
# Addresses in an allocator's dump, which would give every line a different shape.
_ADDRESS = re.compile(rb" at (?:0x)?[0-9a-f]{4,16} of size ")
_LONG_LINE = 4096
_PIECE = 16384
# A log that another program packed into one line of JSON has escaped newlines.
_ESCAPED_NEWLINE = b"\\n"


class _Shape:
    """The watchers for a shape, how many of its lines were seen, and the last two not shown.

    Two, because a single progress line below an error may be a redrawn bar. A shape is ``late``
    if it first occurs after enough lines have been shown.
    """

    __slots__ = ("count", "is_kept", "is_late", "unshown", "watchers")

    def __init__(self, watchers: Sequence[Watcher], *, is_kept: bool, is_late: bool) -> None:
        self.watchers, self.is_kept, self.is_late = watchers, is_kept, is_late
        self.count = 0
        self.unshown: deque[tuple[int, bytes]] = deque(maxlen=2)


class LogReader:
    """Reads a log once; holds only one chunk and the keeper's lines in memory.

    After `read`, ``line_count`` is the number of lines, and ``last`` the last line with a word.
    """

    def __init__(
        self, watchers: Sequence[Watcher], followers: Sequence[Follower], keeper: Keeper
    ) -> None:
        self.line_count = 0
        self.last = LogLine(0, "")
        self._watchers, self._followers, self._keeper = watchers, followers, keeper
        phrases = [keeper.phrases, *(watcher.phrases for watcher in watchers)]
        self._phrases = PhraseIndex(
            (phrase(text), place)
            for place, texts in enumerate(phrases, -1)  # -1 is the keeper
            for text in texts
        )
        self._parts = [
            (phrase(part), place)
            for place, watcher in enumerate(watchers)
            for part in watcher.parts
        ]
        self._shapes: dict[bytes, _Shape] = {}
        self._bytes = 0  # of the shapes
        self._shown = 0
        self._latest: deque[tuple[int, bytes, Sequence[Watcher]]] = deque()
        self._latest_cost = 0

    def read(self, chunks: Iterable[bytes]) -> None:
        """Show every line of ``chunks`` to the watchers of its words."""
        last = (0, b"")
        for number, line in _numbered_lines(chunks):
            self.line_count = number
            if any(follower.wants for follower in self._followers):
                self._follow(LogLine(number, decoded(line)))
            shape = _shape_of(line)
            if not shape.strip():
                continue
            last = number, line
            seen = self._shapes.get(shape) or self._meet(shape)
            if seen.is_kept:
                self._keeper.keep(number, line)
            if seen.watchers:
                self._pass(seen, number, line)
        self.last = LogLine(last[0], decoded(last[1]))
        rest = [
            (number, line, seen.watchers)
            for seen in self._shapes.values()
            for number, line in seen.unshown
        ]
        for number, line, watchers in sorted([*rest, *self._latest], key=itemgetter(0)):
            _show(LogLine(number, decoded(line)), watchers)

    def _follow(self, line: LogLine) -> None:
        """Show a line to the followers of an earlier one, as long as they want more."""
        for follower in self._followers:
            if follower.wants:
                follower.follow(line)

    def _pass(self, seen: _Shape, number: int, line: bytes) -> None:
        """Show a line to its watchers now, or at the end if it is among the last lines."""
        seen.count += 1
        cost = 1 + len(line) // _COUNTS_AS_ONE
        if seen.is_late:
            self._latest.append((number, line, seen.watchers))
            self._latest_cost += cost
            while self._latest_cost > _LATEST:
                self._latest_cost -= 1 + len(self._latest.popleft()[1]) // _COUNTS_AS_ONE
        elif seen.count <= ENOUGH_OF_A_SHAPE:
            self._shown += cost
            _show(LogLine(number, decoded(line)), seen.watchers)
        else:
            seen.unshown.append((number, line))

    def _meet(self, shape: bytes) -> _Shape:
        """The watchers for a shape at its first line; they are remembered."""
        if len(self._shapes) >= _MOST_SHAPES or self._bytes > _MOST_BYTES:
            kept = {at: seen for at, seen in self._shapes.items() if _is_needed(seen)}
            self._shapes, self._bytes = kept, sum(map(len, kept))
        places = {place for part, place in self._parts if part in shape}
        places.update(self._phrases.said_in(shape.split()))
        watchers = [self._watchers[place] for place in sorted(places) if place >= 0]
        is_late = self._shown >= _MOST_SHOWN
        seen = _Shape(watchers, is_kept=-1 in places, is_late=is_late)
        self._shapes[shape] = seen
        self._bytes += len(shape)
        return seen


def _is_needed(seen: _Shape) -> bool:
    """Whether a shape's lines have been shown, so that it must not be mistaken for a new shape."""
    return bool(seen.watchers) and not seen.is_late


def _show(line: LogLine, watchers: Iterable[Watcher]) -> None:
    for watcher in watchers:
        watcher.see(line)


def _shape_of(line: bytes) -> bytes:
    if b" of size " in line:
        line = _ADDRESS.sub(b" at of size ", line)
    return shapes_of(line)


def _numbered_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of successive chunks, with their numbers from 1.

    Each overwritten state of a progress bar is a line too, and so is each piece of a long line: all
    have the number of their line in the file.
    """
    number, is_open = 0, False  # whether the next chunk continues the same line
    for chunk in whole_lines(chunks):
        text = chunk
        if is_open and text.startswith((b"\r", b"\n")):  # the end of the previous line
            is_open = text.startswith(b"\r")
            text = text[1:]
        if not text:
            continue
        number -= is_open
        is_open = not text.endswith(b"\n")
        for line in text.removesuffix(b"\n").split(b"\n"):
            number += 1
            for state in line.split(b"\r"):
                for piece in _pieces(state):
                    yield number, piece


def _pieces(line: bytes) -> Iterator[bytes]:
    """One line or several: the lines packed into one line of JSON, or the parts of a long line."""
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
