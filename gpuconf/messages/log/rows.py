"""A chunk of a log -> its lines, each with its number, as an editor counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat

_LONG_LINE = 4096
_PIECE = 16384
# A log that another program packed into one line of JSON has its newlines as two characters.
_ESCAPED_NEWLINE = b"\\n"


class LogRows:
    """Cuts one chunk after the other; ``count`` is the number of the last line so far."""

    def __init__(self) -> None:
        self.count = 0
        self._is_open = False  # whether the next chunk goes on with the same line

    def of(self, chunk: bytes) -> tuple[Sequence[int], list[bytes]]:
        """The chunk's lines: their numbers, and their bytes.

        What a progress bar wrote over is a line too, and so are the pieces of a long one: all
        have the number of the file's line that they stand in.
        """
        if not chunk:
            return (), []
        lines = chunk.split(b"\n")
        first = self.count + (not self._is_open)
        self._is_open = bool(lines[-1])
        if not self._is_open:
            lines.pop()
        self.count = first + len(lines) - 1
        numbers: Sequence[int] = range(first, self.count + 1)
        if b"\r" in chunk:
            times = [line.count(b"\r") + 1 for line in lines]
            numbers = [*chain.from_iterable(map(repeat, numbers, times))]
            lines = b"\n".join(lines).replace(b"\r", b"\n").split(b"\n")
        if _ESCAPED_NEWLINE in chunk or max(map(len, lines)) >= _LONG_LINE:
            pieces = [[*_pieces(line)] for line in lines]
            numbers = [*chain.from_iterable(map(repeat, numbers, map(len, pieces)))]
            lines = [*chain.from_iterable(pieces)]
        return numbers, lines


def _pieces(line: bytes) -> Iterator[bytes]:
    """The line; one of JSON as the lines packed into it, a long one in pieces."""
    if len(line) >= _LONG_LINE:
        for text in line.split(_ESCAPED_NEWLINE):
            start = 0
            while start < len(text):
                end = start + _PIECE
                if end < len(text):  # not within a word
                    end = text.rfind(b" ", start, end) + 1 or end
                yield text[start:end]
                start = end
    elif line.startswith(b"{") and line.count(_ESCAPED_NEWLINE) > 1:
        yield from line.split(_ESCAPED_NEWLINE)
    else:
        yield line
