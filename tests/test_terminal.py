"""What is said to people, and the colour of a stream: its kind × the environment."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from processes import run_python

from gpuconf.terminal import wants_colour


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
