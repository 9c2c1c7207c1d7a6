"""The process that runs steps, as its parent sees it: started, sent requests, and ended."""

from __future__ import annotations

import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from gpuconf.commands.estimate.runner.program import ABORTED, ONCE, ended_by, is_abort, request
from gpuconf.support.children.family import MarkedFamily

_PROGRAM = "gpuconf.commands.estimate.runner.program"
_REPORT_S = 30.0  # between progress lines
_END_S = 1.0  # between the end of the child's output and its exit
_NOTICE = re.compile(r"[IW]\d{4} |WARNING: All log messages")


class Child:
    """A process that runs `program`, and its folder; a context manager that removes both on exit.

    ``is_for_one`` means that the process ends after one step. ``when_silent`` is called with the
    number of seconds that an answer has taken so far.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        is_for_one: bool,
        timeout_s: float,
        when_silent: Callable[[float], None],
    ) -> None:
        self._environ = environ
        self._command = [sys.executable, "-m", _PROGRAM, *([ONCE] if is_for_one else [])]
        self._timeout_s = timeout_s
        self._when_silent = when_silent
        self._context = ExitStack()
        self._is_ready = False

    def __enter__(self) -> Child:
        with ExitStack() as context:
            temporary = tempfile.TemporaryDirectory(prefix="gpuconf-estimate-")
            self.folder = Path(context.enter_context(temporary))
            # This is a user's process, in gpuconf.estimate and for a script: it may start its own.
            family = context.enter_context(MarkedFamily())
            # A killed worker leaves temporary files.  Some kernels are compiled at their first use,
            # in seconds, and each worker would compile them again.
            files = {"TMPDIR": str(self.folder), "TF_JIT_CACHE_DIR": str(self.folder)}
            with open(self.folder / "stderr", "wb") as stderr:
                self._process = family.start(
                    self._command,
                    {**self._environ, **files},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                )
            context.callback(self._close)
            self._context = context.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process is no longer running."""
        return self._process.poll() is not None

    def is_ready(self) -> bool:
        """Wait until the process is ready for steps; return False if it has ended. Raises
        TimeoutError."""
        self._is_ready = self._is_ready or self._answer() == b"ready"
        return self._is_ready

    def ask(self, folder: Path, limit_bytes: int = 0) -> bytes:
        """Send a request, and return the answer.  Raises TimeoutError.

        If it has ended, the answer is that a kernel aborted, or empty.
        """
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(request(folder, limit_bytes))
            stdin.flush()
        except BrokenPipeError:
            return b""
        answer = self._answer()
        return answer or (ABORTED if is_abort(-(self._exit_code() or 0)) else b"")

    def _answer(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        started_s = time.monotonic()
        poll = select.poll()
        poll.register(stdout, select.POLLIN)
        while (left_s := self._timeout_s - (time.monotonic() - started_s)) > 0:
            if poll.poll(1000 * min(left_s, _REPORT_S)):
                return stdout.readline().strip()
            self._when_silent(time.monotonic() - started_s)
        raise TimeoutError

    def last_words(self) -> str:
        """How the process ended, or the last line it wrote that is more than a notice."""
        code = self._exit_code()
        if code is not None and code < 0:
            return ended_by(-code)
        text = (self.folder / "stderr").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if line.strip() and not _NOTICE.match(line)]
        return lines[-1] if lines else f"it exited with code {code}"

    def _exit_code(self) -> int | None:
        """How it ended; None if it is still running, as after one of its workers failed."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout=_END_S)
        return None

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # data for a child that has ended
                if stream is not None:
                    stream.close()
