"""What is said to people, and the colour of a stream: its kind × the environment."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuconf.terminal import printable, wants_colour
from tests.programs.processes import run_python


class Stream(io.StringIO):
    """A stream that is a terminal, or not."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return super().isatty() or self._terminal


TERMINAL, PIPE = Stream(terminal=True), Stream(terminal=False)
CLOSED = Stream(terminal=True)
CLOSED.close()


@pytest.mark.parametrize(
    ("stream", "choice", "environ", "expected"),
    [
        (TERMINAL, "auto", {}, True),
        (TERMINAL, "auto", {"TERM": "xterm-256color"}, True),
        (TERMINAL, "auto", {"TERM": "dumb"}, False),
        (TERMINAL, "auto", {"NO_COLOR": "1"}, False),
        (TERMINAL, "auto", {"NO_COLOR": ""}, True),
        (TERMINAL, "auto", {"NO_COLOR": "0"}, False),
        (TERMINAL, "never", {"FORCE_COLOR": "1"}, False),
        (PIPE, "auto", {}, False),
        (PIPE, "auto", {"FORCE_COLOR": "1"}, True),
        (PIPE, "auto", {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        (PIPE, "auto", {"FORCE_COLOR": ""}, False),
        (PIPE, "auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (PIPE, "always", {"NO_COLOR": "1"}, True),
        (CLOSED, "auto", {}, False),
        (None, "auto", {}, False),
        (None, "auto", {"FORCE_COLOR": "1"}, True),
    ],
)
def test_colour(
    stream: Stream | None, choice: str, environ: Mapping[str, str], expected: bool
) -> None:
    """--color > non-empty NO_COLOR > non-empty FORCE_COLOR > is it a terminal, and no dumb one."""
    assert wants_colour(stream, choice=choice, environ=environ) is expected


def test_speaking_never_raises(tmp_path: Path) -> None:
    """stderr may be missing, closed or full: a training does not die of a message."""
    program = """
import io, os, sys
from gpuconf.terminal import debug, say
real, heard = sys.stderr, io.StringIO()
streams = (None, open(os.devnull), open("/dev/full", "w"), heard)
for stream in streams:
    sys.stderr = stream
    say("hello")
closed = open(os.devnull, "w")
closed.close()
sys.stderr = closed
say("hello")
ascii = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
sys.stderr = ascii
say("0.7 × 11264 MiB")
sys.stderr = heard
debug("not asked for", environ={})
debug("asked for", environ={"GPUCONF_LOG": "DEBUG"})
sys.stderr = real
assert heard.getvalue() == "gpuconf: hello\\ngpuconf: asked for\\n", heard.getvalue()
os._exit(0)  # /dev/full would complain once more
"""
    assert run_python(program, tmp_path) == "", "nothing of it belongs on stdout"


_STRANGE_STREAMS = """
import io, sys
from gpuconf.terminal import say

class Raising(io.StringIO):
    def write(self, text):
        raise RuntimeError("no console here")

class NoFlush(io.StringIO):
    def flush(self):
        raise LookupError("not that either")

class NotAStream:
    pass

real = sys.stderr
for stream in (Raising(), NoFlush(), NotAStream(), 7):
    sys.stderr = stream
    say("hello")
del sys.stderr
say("hello")
sys.stderr = real
"""


def test_a_strange_stderr_never_ends_a_program(tmp_path: Path) -> None:
    """A stream of the program's own may raise anything, or be deleted: nothing comes through."""
    assert run_python(_STRANGE_STREAMS, tmp_path) == ""


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("utf-8", "gpuconf: 0.7 × 3 MiB\n"),
        ("latin-1", "gpuconf: 0.7 × 3 MiB\n"),
        ("ascii", "gpuconf: 0.7 \\xd7 3 MiB\n"),
        ("iso8859-5", "gpuconf: 0.7 \\xd7 3 MiB\n"),
    ],
)
def test_an_encoding_that_lacks_a_character_gets_an_escape(
    encoding: str, expected: str, tmp_path: Path
) -> None:
    """The line is written with what cannot be encoded as an escape, not left out."""
    program = f"""
import io, sys
from gpuconf.terminal import say
real = sys.stderr
sys.stderr = io.TextIOWrapper(io.BytesIO(), encoding={encoding!r}, errors="strict")
say("0.7 × 3 MiB")
written = sys.stderr.buffer.getvalue()
sys.stderr = real
print(ascii(written.decode({encoding!r})))
"""
    assert run_python(program, tmp_path).strip() == ascii(expected)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("python3", "python3"),
        ("naïve × 2", "naïve × 2"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("na\udcffve", r"na\udcffve"),
        ("\x9b2J", r"\x9b2J"),  # the same as ESC [ in one character
        ("\u202egpj.exe", r"\u202egpj.exe"),  # turns the rest of the line round
        ("\x7f", r"\x7f"),
    ],
)
def test_what_could_command_a_terminal_is_shown_as_an_escape(text: str, shown: str) -> None:
    """Control characters and halves of surrogate pairs; letters of any language stay."""
    assert printable(text) == shown
    assert printable(printable(text)) == shown


def test_layout_can_be_kept() -> None:
    """Newlines and tabs are a text's own where the caller says so."""
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


def test_what_is_said_holds_no_control_characters(tmp_path: Path) -> None:
    """ESC becomes visible; newlines and tabs lay the text out."""
    program = """
import io, sys
from gpuconf.terminal import say
real, sys.stderr = sys.stderr, io.StringIO()
say("two\\n\\tlines \\x1b]0;title\\x07 \\udcff")
heard, sys.stderr = sys.stderr.getvalue(), real
print(ascii(heard))
"""
    heard = ascii("gpuconf: two\n\tlines \\x1b]0;title\\x07 \\udcff\n")
    assert run_python(program, tmp_path).strip() == heard
