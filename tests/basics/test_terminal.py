"""What is said to people, and the color of a stream: its kind × the environment."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Mapping

import pytest

from gpuconf.basics.terminal import debug, for_ipython, for_powershell, printable, say, wants_color


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
def test_color(
    stream: Stream | None, choice: str, environ: Mapping[str, str], expected: bool
) -> None:
    """--color > non-empty NO_COLOR > non-empty FORCE_COLOR > is it a terminal, and no dumb one."""
    assert wants_color(stream, choice=choice, environ=environ) is expected


@pytest.mark.parametrize(
    ("shell", "cell"),
    [
        ("export A=1, or: unset A", '%env A=1, or: import os; os.environ.pop("A", None)'),
        (
            "unset A_1 B Then",
            'import os; os.environ.pop("A_1", None); os.environ.pop("B", None) Then',
        ),
        ("unset A; export B_2='x y'", 'import os; os.environ.pop("A", None)\n%env B_2=x y'),
        ("export A=0,1   # so that", "# so that\n%env A=0,1"),
        ("unset LD_LIBRARY_PATH; pip check", "unset LD_LIBRARY_PATH; pip check"),
        ("unset A B", 'import os; os.environ.pop("A", None); os.environ.pop("B", None)'),
    ],
)
def test_hints_for_a_cell(shell: str, cell: str) -> None:
    """%env takes the rest of its line as the value, and cannot unset; the loader's path stays."""
    assert for_ipython(shell) == cell


@pytest.mark.parametrize(
    ("shell", "powershell"),
    [
        ("export A=1, or: unset A", '$env:A = "1", or: Remove-Item Env:A'),
        ("unset A; export B_2='x y'", 'Remove-Item Env:A; $env:B_2 = "x y"'),
        ("export A=0,1   # so that", '$env:A = "0,1"   # so that'),
    ],
)
def test_hints_for_powershell(shell: str, powershell: str) -> None:
    """Which a terminal on Windows starts; it has neither export nor unset."""
    assert for_powershell(shell) == powershell


class Raising(io.StringIO):
    """A stream of a program's own, which cannot be written to."""

    def write(self, _: str) -> int:
        raise RuntimeError("no console here")


class Full(io.StringIO):
    """One on a full disk."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_speaking_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """stderr may be missing, closed, full or strange: no program ends for a message."""
    with open(os.devnull, encoding="utf-8") as read_only:
        for stream in (None, read_only, CLOSED, Raising(), Full(), object(), 7):
            monkeypatch.setattr(sys, "stderr", stream)
            say("hello")
    monkeypatch.delattr(sys, "stderr")
    say("hello")


def test_what_is_for_debugging(capsys: pytest.CaptureFixture[str]) -> None:
    """Only with GPUCONF_LOG=debug, and like everything on stderr."""
    debug("not requested", environ={})
    debug("requested", environ={"GPUCONF_LOG": "DEBUG"})
    assert capsys.readouterr() == ("", "gpuconf: requested\n")


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", "×"), ("latin-1", "×"), ("ascii", r"\xd7"), ("iso8859-5", r"\xd7")],
)
def test_an_encoding_that_lacks_a_character_gets_an_escape(
    encoding: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is written with what cannot be encoded as an escape, not left out."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding=encoding, errors="strict")
    monkeypatch.setattr(sys, "stderr", stream)
    say("0.7 × 3 MiB")
    assert written.getvalue().decode(encoding) == f"gpuconf: 0.7 {expected} 3 MiB\n"


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


def test_a_line_holds_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """ESC becomes visible; newlines and tabs lay the text out."""
    say("two\n\tlines \x1b]0;title\x07 \udcff")
    assert capsys.readouterr().err == "gpuconf: two\n\tlines \\x1b]0;title\\x07 \\udcff\n"
