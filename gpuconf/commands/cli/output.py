"""A command's output: data to stdout, messages to stderr, each plain or colored."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from io import StringIO, TextIOWrapper
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeVar

from gpuconf.basics.terminal import printable, wants_color
from gpuconf.errors import GpuconfError

# rich, json and the line breaking are imported where they are used, because imports dominate the
# start-up time of a command.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from gpuconf.support.reporting.lines import Line, Table

SCHEMA_VERSION = 1

_ERROR = "gpuconf: error:"
_ENDLESS = 10**5  # columns, for a table that is written to a file
_Drawable = TypeVar("_Drawable")


class Output:
    """The output of one command.

    With ``as_json``, stdout gets exactly one document, even on failure.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.use_color("auto")

    def use_color(self, color: str) -> None:
        """Set the color of both streams: ``always``, ``never`` or ``auto``."""
        self.out = _Stream(sys.stdout, color)
        self.err = _Stream(sys.stderr, color)

    def flush(self) -> None:
        """Flush the streams; raise OSError if that fails."""
        for stream in _streams():
            stream.flush()

    def document(self, value: object) -> None:
        """Print a value type as JSON, with ``schema_version`` first."""
        import json

        from gpuconf.basics.json_values import plain

        print(json.dumps({"schema_version": SCHEMA_VERSION, **plain(value)}, indent=2))

    @property
    def width(self) -> int | None:
        """The number of columns if stdout is a terminal; None for a file or a pipe."""
        return self.out.width

    def line(self, text: str = "", style: str | None = None) -> None:
        """Print one line to stdout.  It is never wrapped, so that it can be copied."""
        self.out.print(_shown(text), style or "")

    def lines(self, lines: Iterable[Line], *, width: int | None = None) -> None:
        """Print lines to stdout, wrapped for a terminal; ``width`` overrides the terminal's."""
        from gpuconf.support.reporting.lines import broken

        for line in broken(map(_shown_line, lines), width or self.width):
            self.out.print(line.text, line.style, line.spans)

    def can_write(self, text: str) -> bool:
        """Whether stdout's encoding can represent all of these characters."""
        try:
            text.encode(self.out.encoding)
        except (LookupError, UnicodeEncodeError):
            return False
        return True

    def screen(self) -> Console:
        """Return stdout as a terminal to draw on, with the chosen colors."""
        return self.out.screen()

    def raw(self, text: str) -> None:
        """Write text to stdout unchanged, for another program."""
        self.out.file.write(text)

    def prose(self, text: str, style: str | None = None) -> None:
        """Print text to stdout; on a terminal, wrap it between words."""
        self.line(text if self.width is None else _fitted(_shown(text), self.width), style)

    def note(self, text: str) -> None:
        """Print a message to stderr."""
        self.err.print(self._fitted(text))

    def progress(self, text: str) -> None:
        """Report on stderr what a long command is doing."""
        self.err.print(self._fitted(f"… {text}"), "dim")

    def progress_for_people(self, text: str) -> None:
        """Report progress only if stderr is a terminal, not in a log."""
        if self.err.file.isatty():
            self.progress(text)

    def table(self, table: Table) -> None:
        """Print a table to stdout, folded to a terminal's width; elsewhere, one line per row."""
        from rich import table as rich_table
        from rich.text import Text

        if table.title:
            self.line(table.title, "bold")
        grid = rich_table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for number, name in enumerate(table.columns):
            grid.add_column(
                Text(name, style="bold"),
                overflow="fold",
                justify="right" if table.is_of_figures(number) else "left",
            )
        for row in table.rows:
            grid.add_row(*(Text(_shown(cell)) for cell in row))
        if self.width:
            self.out.console.print(grid)
            return
        # As wide as its rows, without trailing blanks.
        with self.out.console.capture() as captured:
            self.out.console.print(grid)
        for line in captured.get().splitlines():
            self.out.file.write(f"{line.rstrip()}\n")

    def error(self, error: GpuconfError) -> None:
        """Report an error: on stderr, and as the JSON document if one was requested."""
        if self.as_json:
            from gpuconf.support.reporting.problems import ErrorDocument, problem_of

            self.document(ErrorDocument(problem_of(error)))
        spans = ((0, len(_ERROR), "bold red"),)
        self.err.print(self._fitted(f"{_ERROR} {error}"), spans=spans)

    def bug(self, error: Exception) -> None:
        """Report a bug in gpuconf, with everything a bug report needs."""
        import traceback

        if self.as_json:
            from gpuconf.support.reporting.problems import Bug, ErrorDocument

            self.document(ErrorDocument(Bug(type(error).__name__, str(error))))
        traceback.print_exc()
        self.note("gpuconf: this is a bug in gpuconf; please report it with the lines above")

    def _fitted(self, text: str) -> str:
        """Wrap ``text`` if stderr is a terminal, else leave it unchanged."""
        text = _shown(text)
        return text if self.err.width is None else _fitted(text, self.err.width)


def _fitted(text: str, width: int) -> str:
    from gpuconf.support.reporting.lines import fitted

    return fitted(text, width)


def _shown(text: str) -> str:
    """Escape ``text`` for a terminal: names in it may contain ESC sequences."""
    return printable(text, keep="\n\t")


def _shown_line(line: Line) -> Line:
    """Escape a line's text and move its spans, since an escape is longer than its character."""
    text = _shown(line.text)
    moved = (
        (len(_shown(line.text[:first])), len(_shown(line.text[:end])), style)
        for first, end, style in line.spans
    )
    return line if text == line.text else line._replace(text=text, spans=tuple(moved))


def shown(line: Line) -> Text:
    """Return a line escaped for the terminal, with its styles."""
    line = _shown_line(line)
    return _styled(line.text, line.style, line.spans)


def _styled(text: str, style: str, spans: Iterable[tuple[int, int, str]]) -> Text:
    from rich.text import Text

    styled = Text(text, style=style)
    for first, end, of_span in spans:
        styled.stylize(of_span, first, end)
    return styled


class _Stream:
    """stdout or stderr: plain lines are written directly; colors and layout go through rich."""

    def __init__(self, stream: TextIO | None, color: str) -> None:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ASCII terminal shows ? for ×
        self._is_colored = wants_color(stream, choice=color)
        # A process started without stdout or stderr has None or a closed stream there.
        is_gone = stream is None or getattr(stream, "closed", False)
        self.file: TextIO = StringIO() if stream is None or is_gone else stream

    @property
    def encoding(self) -> str:
        """The stream's encoding."""
        return (getattr(self.file, "encoding", None) or "utf-8").lower()

    @property
    def width(self) -> int | None:
        """The number of columns of the terminal; None for a file or a pipe."""
        return self.console.width if self.file.isatty() else None

    @cached_property
    def console(self) -> Console:
        """The stream as a rich console, for tables and colors."""
        return self._console(is_terminal=self._is_colored)

    def screen(self) -> Console:
        """Return the stream as a terminal to draw on."""
        return self._console(is_terminal=True)

    def print(self, text: str, style: str = "", spans: Iterable[tuple[int, int, str]] = ()) -> None:
        """Write a line.  It is never wrapped, so that it can be copied."""
        if self._is_colored:
            self.console.print(_styled(text, style, spans), soft_wrap=True)
            return
        self.file.write(f"{text.expandtabs()}\n")
        self.file.flush()  # keeps the order with the other stream, which may be the same file

    def _console(self, *, is_terminal: bool) -> Console:
        from rich.console import Console

        class RaisingConsole(Console):
            """A console that leaves the handling of a closed pipe to main()."""

            def on_broken_pipe(self) -> None:
                raise  # noqa: PLE0704  # rich calls this where it handles the BrokenPipeError

        return RaisingConsole(
            file=self.file,
            width=None if self.file.isatty() else _ENDLESS,
            force_terminal=is_terminal,
            force_jupyter=False,  # rich would draw on white there
            color_system="standard" if self._is_colored else None,
            no_color=not self._is_colored,
            highlight=False,
            markup=False,
            emoji=False,
        )


def _streams() -> list[TextIO]:
    """Return stdout and stderr, if this process has them."""
    return [stream for stream in (sys.stdout, sys.stderr) if stream is not None]


def drop_unwritten() -> None:
    """Discard unflushed output so that the interpreter does not raise again at exit."""
    for stream in _streams():
        _drop_unwritten(stream)


def _drop_unwritten(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


class Drawn(NamedTuple):
    """The result of drawing: the file's path, a message for stderr, and an exit code."""

    path: str | None = None
    said: str | None = None
    code: int = 0


def drawn(draw: Callable[[_Drawable, str], None], what: _Drawable, path: str | None) -> Drawn:
    """Draw ``what`` into ``path``; do nothing if no plot was requested."""
    if path is None:
        return Drawn()
    try:
        draw(what, path)
    except OSError as error:
        reason = error.strerror or error
        return Drawn(None, f"gpuconf: error: --plot {path}: {reason}; no plot", 1)
    return Drawn(path, f"wrote {path}")
