"""Where a command's words go: data to stdout, messages to stderr, both plain or coloured."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Sequence
from io import StringIO, TextIOWrapper
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuconf.cli.commands import COMMANDS
from gpuconf.errors import GpuconfError
from gpuconf.reporting.plain import plain
from gpuconf.reporting.problems import Bug, ErrorDocument, problem_of
from gpuconf.terminal import printable, wants_colour

SCHEMA_VERSION = 1

_ERROR = "gpuconf: error:"
_QUOTED = re.compile(r'''`[^`]*`|(?<!\w)'[^']*'|"[^"]*"''')
_OURS = f"gpuconf (?:{'|'.join(COMMANDS)})"
# A hint is often a command as it stands, or ends in one.
_COMMAND = re.compile(
    rf"(?<!\S)(?:{_OURS}|python -m|pip install|mkdir -p|df|rm|ls|unset|export) .*?(?=;|, or |$)"
)
_OUR_COMMAND = re.compile(rf"(?<!\S){_OURS} .*$")
_KEPT_SPACE = "\0"


class Output:
    """One command's output.

    With ``as_json``, stdout gets exactly one document, also on failure.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.use_color("auto")

    def use_color(self, color: str) -> None:
        """Colour both streams by ``always``, ``never`` or ``auto``."""
        self.out = _console(sys.stdout, color)
        self.err = _console(sys.stderr, color)

    def flush(self) -> None:
        """Write out what is buffered; raise OSError where that fails."""
        for stream in _streams():
            stream.flush()

    def document(self, value: object) -> None:
        """Print a value type as JSON, with ``schema_version`` first."""
        print(json.dumps({"schema_version": SCHEMA_VERSION, **plain(value)}, indent=2))

    def line(self, text: str = "", style: str | None = None) -> None:
        """Print one line of text to stdout, never wrapped: people paste it."""
        self.out.print(Text(_shown(text), style=style or ""), soft_wrap=True)

    def prose(self, text: str, style: str | None = None) -> None:
        """Print text to stdout, broken for a terminal between words."""
        broken = fitted(_shown(text), self.out.width) if self.out.file.isatty() else text
        self.line(broken, style)

    def note(self, text: str) -> None:
        """Print one line for people to stderr."""
        self._tell(Text(self._fitted(text)))

    def progress(self, text: str) -> None:
        """Say on stderr what a long command is doing now."""
        self._tell(Text(self._fitted(f"… {text}"), style="dim"))

    def table(self, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
        """Print a table to stdout: folded to a terminal's width, a row a line for programs."""
        rows = [tuple(_shown(cell) for cell in row) for row in rows]
        if not self.out.file.isatty():
            widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
            for row in (columns, *rows):
                cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                self.line("  ".join(cells).rstrip())
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for column in columns:
            table.add_column(Text(column, style="bold"), overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.out.print(table)

    def error(self, error: GpuconfError) -> None:
        """Say what was refused: to stderr for people, as the one document for programs."""
        if self.as_json:
            self.document(ErrorDocument(problem_of(error)))
        text = Text(self._fitted(f"{_ERROR} {error}"))
        text.stylize("bold red", 0, len(_ERROR))
        self._tell(text)

    def bug(self, error: Exception) -> None:
        """Say that gpuconf itself is at fault, with all that a report needs."""
        if self.as_json:
            self.document(ErrorDocument(Bug(type(error).__name__, str(error))))
        traceback.print_exc()
        self.note("gpuconf: this is a bug in gpuconf; please report it with the lines above")

    def _tell(self, text: Text) -> None:
        self.err.print(text, soft_wrap=True)

    def _fitted(self, text: str) -> str:
        """``text`` broken for the terminal that stderr is; as it is where it is none."""
        text = _shown(text)
        return fitted(text, self.err.width) if self.err.file.isatty() else text


def _shown(text: str) -> str:
    """``text`` as a terminal may get it: names in it may hold ESC sequences."""
    return printable(text, keep="\n\t")


def fitted(text: str, width: int) -> str:
    """``text`` broken at spaces, lines that follow indented; no command or path is broken.

    One of those that is too long stays a line of its own, which a terminal copies as one.
    """
    return "\n".join(_fitted_line(line, width) for line in text.split("\n"))


def _fitted_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    label, hint, rest = line.rpartition("hint: ")
    for whole in (_QUOTED, _COMMAND if hint else _OUR_COMMAND):
        rest = whole.sub(lambda found: found[0].replace(" ", _KEPT_SPACE), rest)
    broken = textwrap.wrap(
        label + hint + rest,
        width,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(broken).replace(_KEPT_SPACE, " ")


class _Console(Console):
    """A console that leaves the closed pipe to main()."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704  # rich calls this where it handles the BrokenPipeError


def _streams() -> list[TextIO]:
    """stdout and stderr, as far as this process has them."""
    return [stream for stream in (sys.stdout, sys.stderr) if stream is not None]


def drop_unwritten() -> None:
    """Let what cannot be written go, so that it does not raise again at exit."""
    for stream in _streams():
        _drop_unwritten(stream)


def _drop_unwritten(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


def _console(stream: TextIO | None, color: str) -> Console:
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")  # an ASCII terminal shows ? for ×, and no traceback
    coloured = wants_colour(stream, choice=color)
    return _Console(
        # A process that was started without stdout or stderr has None there.
        file=StringIO() if stream is None else stream,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        no_color=not coloured,
        highlight=False,
        markup=False,
        emoji=False,
    )
