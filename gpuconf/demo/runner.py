"""Run a script as it is, or as a copy with `import gpuconf.auto` for its first line.

A script tells its outcome in one line: ``RESULT`` and JSON.  What TensorFlow logged is read for
the limit of each device and for the driver's refusals.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

FIRST_LINE = "import gpuconf.auto\n"
_CREATED = re.compile(r"Created device \S+device:(GPU:\d+) with (\d+) MB memory")
_ERROR = re.compile(r"[\w.]+(Error|Exception)\b")
_TIMEOUT_S = 300.0


class Run(NamedTuple):
    """How a script ended.

    ``result`` is what it told, None if it died before.  ``created`` maps each device to the MB
    (TensorFlow's word for MiB) of its "Created device" line.
    """

    code: int
    log: str
    result: dict[str, Any] | None
    created: dict[str, int]
    seconds: float

    @property
    def last_error(self) -> str:
        """The exception's line of the traceback, or whatever came last."""
        lines = [line for line in self.log.splitlines() if line.strip()]
        return ([line for line in lines if _ERROR.match(line)] or lines or [""])[-1]

    @property
    def refusals(self) -> list[str]:
        """The driver's refusals as TensorFlow logged them, without time and source line."""
        lines = [line for line in self.log.splitlines() if "CUDA_ERROR_OUT_OF_MEMORY" in line]
        return [line.partition("] ")[2] or line for line in lines]


class Runner:
    """Runs scripts of the folders ``programs`` with one Python in one environment."""

    def __init__(
        self, python: str, environ: Mapping[str, str], *, programs: tuple[Path, ...]
    ) -> None:
        self.python = python
        self.environ = dict(environ)
        self._programs = programs
        self._copies = tempfile.TemporaryDirectory(prefix="gpuconf-")
        self.folder = Path(self._copies.name)

    def run(self, program: str, *, profile: str | None = None, **variables: str) -> Run:
        """Run a script to its end; with ``profile``, as its copy with one line more."""
        started = time.monotonic()
        return _ended(self._start(program, profile, variables), "", started)

    @contextmanager
    def holding(
        self, program: str, *, profile: str | None = None, **variables: str
    ) -> Iterator[list[Run]]:
        """While a script that has told its RESULT waits for its stdin to close, and so holds
        its memory.  How it ended is in the list afterwards.
        """
        started = time.monotonic()
        process = self._start(program, profile, variables)
        head = _read_until_result(process)
        ended: list[Run] = []
        try:
            yield ended
        finally:
            ended.append(_ended(process, head, started))

    def close(self) -> None:
        """Remove the copies."""
        self._copies.cleanup()

    def _start(
        self, program: str, profile: str | None, variables: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        environ = {**self.environ, **variables}
        if profile is not None:
            environ["GPUCONF_PROFILE"] = profile
        return subprocess.Popen(
            [self.python, str(self._copy(program, one_line_more=profile is not None))],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def _copy(self, program: str, *, one_line_more: bool) -> Path:
        (original,) = (f / program for f in self._programs if (f / program).exists())
        source = original.read_text(encoding="utf-8")
        copy = self.folder / f"{'with' if one_line_more else 'without'}_{program}"
        copy.write_text((FIRST_LINE if one_line_more else "") + source, encoding="utf-8")
        return copy


def _read_until_result(process: subprocess.Popen[str]) -> str:
    head = ""
    assert process.stdout is not None
    for line in process.stdout:
        head += line
        if line.startswith("RESULT "):
            break
    return head


def _ended(process: subprocess.Popen[str], head: str, started: float) -> Run:
    """Let the script go on to its end (its stdin closes) and read the rest of its output."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    # Not communicate(): it would read past what the text stream already holds in its buffer.
    log = head + process.stdout.read()
    process.stdout.close()
    code = process.wait(timeout=_TIMEOUT_S)
    results = [line for line in log.splitlines() if line.startswith("RESULT ")]
    result = json.loads(results[-1].removeprefix("RESULT ")) if results else None
    created = {name: int(mb) for name, mb in _CREATED.findall(log)}
    return Run(code, log, result, created, time.monotonic() - started)
