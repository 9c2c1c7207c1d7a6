"""Human-readable lines and tables, and line wrapping for terminals.  Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpuconf.support.command_line import COMMANDS

_QUOTED = re.compile(r'''`[^`]*`|(?<!\w)'[^']*'|"[^"]*"''')
_OURS = f"gpuconf (?:{'|'.join(COMMANDS)})"
# A hint is often a command, or ends in one.
_COMMAND = re.compile(
    rf"(?<!\S)(?:{_OURS}|python -m|pip install|mkdir -p|df|rm|ls|unset|export) .*?(?=;|, or |$)"
)
_OUR_COMMAND = re.compile(rf"(?<!\S){_OURS} .*$")
_KEPT_SPACE = "\0"
_NARROWEST = 30  # columns for text; on a narrower terminal, lines overflow


class Line(NamedTuple):
    """A line for people.

    ``hang`` is the indent of continuation lines when it is wrapped; None means never wrap, as for
    table rows and text to paste.  ``spans`` are parts of the text with their own style, as (first,
    end, style).
    """

    text: str = ""
    style: str = ""
    hang: int | None = 2
    spans: tuple[tuple[int, int, str], ...] = ()


class Table(NamedTuple):
    """Column names and rows of cells; a column that contains only numbers is right-aligned."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    title: str = ""

    def is_of_figures(self, column: int) -> bool:
        """Whether every cell of this column is a number, a size, or empty."""
        return all(_FIGURE.fullmatch(row[column]) for row in self.rows)


_FIGURE = re.compile(r"(?:-|-?[\d.]+(?: (?:B|KiB|MiB))?)?")


def line_of(*pieces: tuple[str, str], hang: int | None = None) -> Line:
    """A line made of (text, style) pieces."""
    spans, place = [], 0
    for text, style in pieces:
        if style:
            spans.append((place, place + len(text), style))
        place += len(text)
    return Line("".join(text for text, _ in pieces), "", hang, tuple(spans))


def broken(lines: Iterable[Line], width: int | None) -> Iterator[Line]:
    """Wrap the lines for a terminal of ``width`` columns; None, for files, leaves them unchanged.

    The first ``hang`` characters of a wrapped line stay in place.
    """
    for line in lines:
        if width is None or line.hang is None or len(line.text) <= width:
            yield line
            continue
        head, rest = line.text[: line.hang], line.text[line.hang :]
        room = max(width - line.hang, _NARROWEST)
        first, *others = _pieces(rest, room, indent="")
        yield Line(head + first, line.style, line.hang, _clipped(line.spans, len(head + first)))
        for other in others:
            yield Line(" " * line.hang + other, line.style, line.hang)


def fitted(text: str, width: int) -> str:
    """Wrap ``text`` at spaces and indent continuation lines; never split a command or a path.

    A command or path that is too long stays on one line, so that it can be copied from a terminal
    as one line.
    """
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines += [line] if len(line) <= width else _pieces(line, width, indent=indent)
    return "\n".join(lines)


def _pieces(line: str, width: int, *, indent: str) -> list[str]:
    """Wrap one line between words, but not within a command, a quoted name or a path."""
    label, hint, rest = line.rpartition("hint: ")
    for whole in (_QUOTED, _COMMAND if hint else _OUR_COMMAND):
        rest = whole.sub(lambda found: found[0].replace(" ", _KEPT_SPACE), rest)
    pieces = textwrap.wrap(
        label + hint + rest,
        width,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [piece.replace(_KEPT_SPACE, " ") for piece in pieces] or [""]


def _clipped(
    spans: Iterable[tuple[int, int, str]], length: int
) -> tuple[tuple[int, int, str], ...]:
    return tuple((first, min(end, length), style) for first, end, style in spans if first < length)
