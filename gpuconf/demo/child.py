"""A script as a child process that cannot outlive us, nor its time."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

RESULT = "RESULT "
_LAST_WORDS_S = 2.0  # for the reader, once nothing runs that could write


class End(NamedTuple):
    """The exit code (below 0 a signal's number), all that was printed, and why we killed it."""

    code: int
    output: str
    verdict: str = ""


class Child:
    """A started script; a thread reads what it prints, so that no pipe fills and no read blocks.

    It has ``timeout_s`` in all, of which only the time counts in which we wait for it, first for
    its sign, a line that begins with ``sign``, and then for its end.  It leads a process group of
    its own, so that what it started ends with it.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        timeout_s: float,
        sign: str = RESULT,
    ) -> None:
        self._timeout_s = self._left_s = timeout_s
        self._sign = sign
        self._lines: list[str] = []
        self._needs_no_wait = threading.Event()
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def gives_sign(self) -> bool:
        """Wait for the sign; False if the script ended, or its time did, without one."""
        started = time.monotonic()
        self._needs_no_wait.wait(self._left_s)
        self._left_s -= time.monotonic() - started
        return any(line.startswith(self._sign) for line in self._lines)

    def finish(self) -> End:
        """Let the script go on to its end (its stdin closes); kill it when its time is up."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        verdict = ""
        try:
            self._process.wait(max(self._left_s, 0))
        except subprocess.TimeoutExpired:
            verdict = f"TimeoutError: killed after {self._timeout_s:g} s"
        self.kill()
        return End(self._process.returncode, "".join(self._lines), verdict)

    def kill(self) -> None:
        """Return once the script is gone, and with it what it holds; nothing if it is already."""
        if self._process.poll() is None:
            self._kill_group()
            self._process.wait()
        self._reader.join(_LAST_WORDS_S)
        if self._reader.is_alive():  # something that it started lives on and has its stdout
            self._kill_group()
            self._reader.join(_LAST_WORDS_S)
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            for line in stdout:
                self._lines.append(line)
                if line.startswith(self._sign):
                    self._needs_no_wait.set()
        self._needs_no_wait.set()
