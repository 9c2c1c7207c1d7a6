"""Forward the program's stderr as it arrives, and keep its end as evidence in case of an abort.

stdout is given to the program directly.  A stderr that is a terminal is replaced by a
pseudo-terminal of the same size, so that the program still sees one and draws its progress bars.
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
    """A program's output; ``child_stdout`` and ``child_stderr`` are for Popen.

    It is forwarded if ``is_shown``.  Otherwise a terminal shows the progress instead.
    """

    def __init__(self, *, is_shown: bool, stdout_to_stderr: bool) -> None:
        self.is_shown = is_shown
        self._target = _fileno(sys.stderr)  # None if there is none, or its reader is gone
        self._is_terminal = self._target is not None and os.isatty(self._target)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        self._tail = bytearray()
        self._status = b""
        self._source, self.child_stderr = self._open()
        self._open_ones = {self._source, self.child_stderr}
        if not is_shown:
            self.child_stdout = subprocess.DEVNULL
        elif stdout_to_stderr:
            self.child_stdout = self.child_stderr
        else:
            descriptor = _fileno(sys.stdout)
            self.child_stdout = subprocess.DEVNULL if descriptor is None else descriptor

    def __enter__(self) -> Passthrough:
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self.say("")
        for descriptor in list(self._open_ones):
            self._close(descriptor)

    @property
    def stderr_tail(self) -> str:
        """The end of what the program wrote to stderr."""
        return self._tail.decode("utf-8", "replace")

    def child_has_started(self) -> None:
        """Close gpuconf's copy of the program's end once the program has it."""
        self._close(self.child_stderr)

    def show(self, status: str) -> None:
        """Show the progress in one line of a terminal that the program does not write to."""
        line = _ERASE_LINE + b"\x1b[2m" + status.encode() + b"\x1b[0m"
        if self._is_terminal and not self.is_shown and line != self._status:
            self._status = line
            self._write(line)

    def say(self, text: str | None) -> None:
        """Write a line from gpuconf to stderr, in place of the progress."""
        if text is not None:
            erased = _ERASE_LINE if self._status else b""
            self._status = b""
            self._write(erased + text.encode())

    def pump(self, timeout_s: float) -> bool:
        """Forward what arrives within the time limit; return whether more may come."""
        sources = [self._source] if self._source in self._open_ones else []
        ready, _, _ = select.select(sources, [], [], timeout_s)
        if not ready:
            return False
        try:
            data = os.read(self._source, 65536)
        except OSError:  # a pseudo-terminal reports a closed peer this way
            data = b""
        if not data:
            self._close(self._source)
        self._tail += data
        del self._tail[:-_TAIL_BYTES]
        if self.is_shown:
            self._write(data)
        return True

    def drain(self) -> None:
        """Forward the remaining output of a program that has ended."""
        while self.pump(0.2):
            pass
        if self._is_terminal and self.is_shown and self._tail and not self._tail.endswith(b"\n"):
            self._write(b"\r\n")  # keep an interrupted progress bar readable

    def _open(self) -> tuple[int, int]:
        """Open a pipe, or a pseudo-terminal for a terminal; return our end and the program's."""
        if not (self._is_terminal and self.is_shown) or self._target is None:
            return os.pipe()
        source, end = pty.openpty()
        tty.setraw(end)  # no second translation of line endings
        size = fcntl.ioctl(self._target, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(end, termios.TIOCSWINSZ, size)
        return source, end

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open_ones:
            self._open_ones.remove(descriptor)
            os.close(descriptor)

    def _write(self, data: bytes) -> None:
        """Write all of ``data``, but nothing more once the reader is gone or the disk is full.

        The rehearsal continues: its verdict is the exit code, which needs no reader.
        """
        try:
            while data and self._target is not None:
                data = data[os.write(self._target, data) :]
        except OSError:
            self._target = None


def _fileno(stream: TextIO | None) -> int | None:
    try:
        return None if stream is None else stream.fileno()
    except (OSError, ValueError):  # closed, or an in-memory stream in a test
        return None
