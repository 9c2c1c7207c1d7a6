"""Forward the program's output as it arrives, with a status line below it on a terminal.

A stdout that is not a terminal is given to the program directly.  A terminal is replaced by a
pseudo-terminal of the same size, so that the program still sees one and draws its progress bars,
and we know when a line is complete and ours can go below it.  stderr always passes through here,
because its end is the evidence of an aborted program.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import tty
from typing import TextIO

_TAIL_BYTES = 2 * 1024 * 1024  # TensorFlow lists every chunk of memory when it runs out
_ERASE_LINE = b"\r\x1b[K"


class Passthrough:
    """Forwards a program's output to ours; ``child_stdout`` and ``child_stderr`` are for Popen."""

    def __init__(self, *, is_shown: bool, stdout_to_stderr: bool) -> None:
        self.is_shown = is_shown
        self._out = sys.stderr if stdout_to_stderr else sys.stdout
        self._sinks: dict[int, int | None] = {}  # source descriptor -> target descriptor
        self._gone: set[int] = set()  # targets that can no longer be written to
        self._ours: list[int] = []
        self._tail = bytearray()
        self._stderr_source = -1
        self._status = b""
        self._is_drawn = False
        self._ends_line = True
        self._terminal = _fileno(sys.stderr) if _is_terminal(sys.stderr) else None
        self.child_stderr = self._open(sys.stderr if is_shown else None)
        self._stderr_source = next(iter(self._sinks))
        if not is_shown:
            self.child_stdout = subprocess.DEVNULL
        elif stdout_to_stderr:
            self.child_stdout = self.child_stderr
        elif _is_terminal(self._out):
            self.child_stdout = self._open(self._out)
        else:
            _flush(self._out)
            descriptor = _fileno(self._out)
            self.child_stdout = subprocess.DEVNULL if descriptor is None else descriptor

    def __enter__(self) -> Passthrough:
        return self

    def __exit__(self, *_: object) -> None:
        self._erase()
        for descriptor in [*self._ours, *self._sinks]:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    @property
    def stderr_tail(self) -> str:
        """The end of what the program wrote to stderr."""
        return self._tail.decode("utf-8", "replace")

    def child_has_started(self) -> None:
        """Close our copies of the program's ends, once it has them."""
        for descriptor in self._ours:
            os.close(descriptor)
        self._ours.clear()

    def show(self, status: str) -> None:
        """Draw a line below the output, if there is a terminal and no partial line on it."""
        if self._terminal is None or status.encode() == self._status:
            return
        self._erase()
        self._status = status.encode()
        self._draw()

    def say(self, text: str | None) -> None:
        """Write a line of our own to stderr, between the program's."""
        descriptor = _fileno(sys.stderr)
        if text is not None and descriptor is not None:
            self._erase()
            self._write(descriptor, text.encode())

    def pump(self, timeout_s: float) -> bool:
        """Forward what arrives within the time; return whether more may come."""
        if not self._sinks:
            select.select([], [], [], timeout_s)
            return False
        ready, _, _ = select.select(list(self._sinks), [], [], timeout_s)
        for source in ready:
            self._pass_on(source)
        return bool(ready)

    def drain(self) -> None:
        """Forward the remaining output of a program that has ended."""
        while self._sinks and self.pump(0.2):
            pass
        self._erase()
        if self._terminal is not None and not self._ends_line:
            # Keep an interrupted progress bar readable.
            self._write(self._terminal, b"\r\n")
            self._ends_line = True

    def _open(self, target: TextIO | None) -> int:
        """Open a pipe, or a pseudo-terminal for a terminal; return the program's end."""
        if target is not None and _is_terminal(target):
            source, end = pty.openpty()
            tty.setraw(end)  # no second translation of line endings
            size = fcntl.ioctl(target.fileno(), termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(end, termios.TIOCSWINSZ, size)
        else:
            source, end = os.pipe()
        self._sinks[source] = None if target is None else _fileno(target)
        self._ours.append(end)
        _flush(target)
        return end

    def _pass_on(self, source: int) -> None:
        try:
            data = os.read(source, 65536)
        except OSError:  # a pseudo-terminal reports a closed peer this way
            data = b""
        target = self._sinks[source]
        if not data:
            os.close(source)
            del self._sinks[source]
            return
        if source == self._stderr_source:
            self._tail += data
            del self._tail[:-_TAIL_BYTES]
        if target is None:
            return
        self._erase()
        self._write(target, data)
        if os.isatty(target):
            self._ends_line = data.endswith(b"\n")
        self._draw()

    def _draw(self) -> None:
        if self._terminal is not None and self._status and self._ends_line:
            self._write(self._terminal, b"\x1b[2m" + self._status + b"\x1b[0m")
            self._is_drawn = True

    def _erase(self) -> None:
        if self._is_drawn and self._terminal is not None:
            self._write(self._terminal, _ERASE_LINE)
        self._is_drawn = False

    def _write(self, descriptor: int, data: bytes) -> None:
        """Write all of ``data``, but nothing more after the reader is gone or the disk is full.

        The rehearsal continues: its verdict is the exit code, which needs no reader.
        """
        try:
            while data and descriptor not in self._gone:
                data = data[os.write(descriptor, data) :]
        except OSError:
            self._gone.add(descriptor)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _fileno(stream: TextIO | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):  # closed, or an in-memory stream in a test
        return None


def _flush(stream: TextIO | None) -> None:
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
