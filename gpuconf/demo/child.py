"""A script as a child process that cannot outlive us, nor its time."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from gpuconf.children.family import Family
from gpuconf.children.run import memory_file, whole_text_of

RESULT = "RESULT "
_POLL_S = 0.02


class End(NamedTuple):
    """The exit code (below 0 a signal's number), all that was printed, and why we killed it."""

    code: int
    output: str
    verdict: str = ""


class Child:
    """A started script; see `started_child`."""

    def __init__(
        self,
        family: Family,
        process: subprocess.Popen[bytes],
        output: int,
        *,
        timeout_s: float,
        sign: str,
    ) -> None:
        self._family = family
        self._process = process
        self._output = output
        self._timeout_s = self._left_s = timeout_s
        self._sign = sign

    def gives_sign(self) -> bool:
        """Wait for the sign; False if the script ended, or its time did, without one."""
        until = time.monotonic() + self._left_s
        while True:
            may_write = self._process.poll() is None
            lines = whole_text_of(self._output).splitlines()
            has_given = any(line.startswith(self._sign) for line in lines)
            self._left_s = until - time.monotonic()
            if has_given or not may_write or self._left_s < 0:
                return has_given
            time.sleep(_POLL_S)

    def finish(self) -> End:
        """Let the script go on to its end (its stdin closes); kill it when its time is up."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        verdict = ""
        try:
            self._process.wait(max(self._left_s, 0))
        except subprocess.TimeoutExpired:
            verdict = f"TimeoutError: killed after {self._timeout_s:g} s"
        self._family.end()
        return End(self._process.wait(), whole_text_of(self._output), verdict)


@contextmanager
def started_child(
    command: Sequence[str], environ: Mapping[str, str], *, timeout_s: float, sign: str = RESULT
) -> Iterator[Child]:
    """Start a script, which is gone with all that it started when the context is left.

    It has ``timeout_s`` in all, of which only the time counts in which we wait for it, first for
    its sign, a line that begins with ``sign``, and then for its end.
    """
    with memory_file("output") as output, Family() as family:
        process = family.start(
            command, environ, stdin=subprocess.PIPE, stdout=output, stderr=output
        )
        try:
            yield Child(family, process, output, timeout_s=timeout_s, sign=sign)
        finally:
            assert process.stdin is not None
            process.stdin.close()
