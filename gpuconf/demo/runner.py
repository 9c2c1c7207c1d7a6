"""Run a script as it is, or as a copy with `import gpuconf.auto` for its first line.

A script tells its outcome in one line: ``RESULT`` and JSON.  What TensorFlow logged is read for
the limit of each device and for the driver's refusals.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.demo.child import RESULT, Child, End, started_child
from gpuconf.errors import GpuconfError

FIRST_LINE = "import gpuconf.auto\n"
_CREATED = re.compile(r"Created device \S+device:(GPU:\d+) with (\d+) MB memory")
_ERROR = re.compile(r"[\w.]+(Error|Exception)\b")


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


class ProgramDiedError(GpuconfError):
    """A script that was to hold its memory ended, or was killed, before it gave its sign."""

    def __init__(self, program: str, run: Run) -> None:
        ended = f"exit code {run.code}, after {run.seconds:.0f} s"
        super().__init__(f"{program} ended ({ended}) before it held anything: {run.last_error}")
        self.run = run


class Runner:
    """Runs scripts of the folders ``programs`` with one Python in one environment.

    A script that takes more than ``timeout_s`` is killed; no way out of the methods leaves one
    behind that still holds the card.
    """

    def __init__(
        self,
        python: str,
        environ: Mapping[str, str],
        *,
        programs: tuple[Path, ...],
        timeout_s: float = 300.0,
    ) -> None:
        self.python = python
        self.environ = dict(environ)
        self._programs = programs
        self._timeout_s = timeout_s
        self._copies = tempfile.TemporaryDirectory(prefix="gpuconf-")
        self.folder = Path(self._copies.name)

    def run(self, program: str, *, profile: str | None = None, **variables: str) -> Run:
        """Run a script to its end; with ``profile``, as its copy with one line more."""
        started = time.monotonic()
        with self._started(program, profile, variables) as child:
            return _read(child.finish(), started)

    @contextmanager
    def holding(
        self,
        program: str,
        *,
        profile: str | None = None,
        sign: str = RESULT,
        **variables: str,
    ) -> Iterator[list[Run]]:
        """While a script holds its memory: from its ``sign`` on, a line that begins so, and until
        its stdin closes, for which it waits at its end.  How it ended is in the list afterwards.

        Raises ProgramDiedError if it never came to hold any.
        """
        started = time.monotonic()
        with self._started(program, profile, variables, sign=sign) as child:
            if not child.gives_sign():
                raise ProgramDiedError(program, _read(child.finish(), started))
            ended: list[Run] = []
            yield ended
            ended.append(_read(child.finish(), started))

    def close(self) -> None:
        """Remove the copies."""
        self._copies.cleanup()

    @contextmanager
    def _started(
        self,
        program: str,
        profile: str | None,
        variables: Mapping[str, str],
        *,
        sign: str = RESULT,
    ) -> Iterator[Child]:
        environ = {**self.environ, **variables}
        if profile is not None:
            environ["GPUCONF_PROFILE"] = profile
        copy = self._copy(program, one_line_more=profile is not None)
        command = [self.python, str(copy)]
        with started_child(command, environ, timeout_s=self._timeout_s, sign=sign) as child:
            yield child

    def _copy(self, program: str, *, one_line_more: bool) -> Path:
        (original,) = (f / program for f in self._programs if (f / program).exists())
        source = original.read_text(encoding="utf-8")
        copy = self.folder / f"{'with' if one_line_more else 'without'}_{program}"
        copy.write_text((FIRST_LINE if one_line_more else "") + source, encoding="utf-8")
        return copy


def _read(end: End, started: float) -> Run:
    """What the output says; of a killed script the last line may have been cut off."""
    whole = [line for line in end.output.splitlines(keepends=True) if line.endswith("\n")]
    results = [line.removeprefix(RESULT) for line in whole if line.startswith(RESULT)]
    result = json.loads(results[-1]) if results else None
    created = {name: int(mb) for name, mb in _CREATED.findall(end.output)}
    log = f"{end.output}\n{end.verdict}\n" if end.verdict else end.output
    return Run(end.code, log, result, created, time.monotonic() - started)
