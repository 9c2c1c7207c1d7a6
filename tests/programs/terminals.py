"""A command on a pseudo terminal, whose keyboard reaches it as a real one's does."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.programs.processes import clean_environment

_ON_ITS_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
_LONGEST_SILENCE_S = 60
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class OnTerminal:
    """``command`` on a terminal of so many columns and rows; as a context it ends with it."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        columns: int,
        rows: int = 40,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_ITS_TERMINAL, *command],
            cwd=folder,
            env=clean_environment(folder, {"TERM": "xterm", "NO_COLOR": "1", **(environ or {})}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = ""

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def read_until(self, pattern: str, *, timeout_s: float = 60) -> str:
        """What it has written, once that matches ``pattern``; AssertionError if it never does."""
        deadline = time.monotonic() + timeout_s
        while re.search(pattern, self.raw) is None:
            assert self._read(), self.raw
            assert time.monotonic() < deadline, self.raw
        return self.raw

    def end(self, *, timeout_s: float = 60) -> int:
        """Read to the end; return the exit code.  AssertionError if there is none."""
        deadline = time.monotonic() + timeout_s
        while self._read():
            assert time.monotonic() < deadline, self.raw
        return self.process.wait(timeout_s)

    def press(self, keys: bytes) -> None:
        """Type ``keys``; b"\\x03" is Ctrl-C."""
        os.write(self._ours, keys)

    @property
    def lines(self) -> list[str]:
        """What was written, without escape sequences."""
        return _ESCAPES.sub("", self.raw).replace("\r\n", "\n").splitlines()

    def _read(self) -> bool:
        """Read what comes next; False at the end.  AssertionError after a minute of silence."""
        assert select.select([self._ours], [], [], _LONGEST_SILENCE_S)[0], self.raw
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # how a terminal's end is reported
            return False
        self.raw += data.decode("utf-8", errors="replace")
        return bool(data)
