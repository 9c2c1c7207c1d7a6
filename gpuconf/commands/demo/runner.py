"""Run a script unchanged, or as a copy with `import gpuconf.auto` as its first line.

A script prints its outcome in one line: ``RESULT`` and JSON. TensorFlow's log is read for the limit
of each device and for the driver's refusals.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.errors import GpuconfError
from gpuconf.support.children.family import AdoptingFamily
from gpuconf.support.children.run import memory_file, whole_text_of

RESULT = "RESULT "
_POLL_S = 0.02
FIRST_LINE = "import gpuconf.auto\n"
_CREATED = re.compile(r"Created device \S+device:(GPU:\d+) with (\d+) MB memory")
_ERROR = re.compile(r"[\w.]+(Error|Exception)\b")


class ScriptRun(NamedTuple):
    """How a script ended.

    ``result`` is its printed result, None if it failed before printing one. ``created`` maps each
    device to the MB (TensorFlow's word for MiB) of its "Created device" line.
    """

    code: int
    log: str
    result: dict[str, Any] | None
    created: dict[str, int]
    seconds: float

    @property
    def last_error(self) -> str:
        """The traceback line with the exception, or the last line."""
        lines = [line for line in self.log.splitlines() if line.strip()]
        return ([line for line in lines if _ERROR.match(line)] or lines or [""])[-1]

    @property
    def refusals(self) -> list[str]:
        """The driver's refusals as logged by TensorFlow, without the time and the source line."""
        lines = [line for line in self.log.splitlines() if "CUDA_ERROR_OUT_OF_MEMORY" in line]
        return [line.partition("] ")[2] or line for line in lines]


class ProgramDiedError(GpuconfError):
    """A script that should use its memory ended or was killed before it printed its ready line."""

    def __init__(self, program: str, run: ScriptRun) -> None:
        ended = f"exit code {run.code}, after {run.seconds:.0f} s"
        super().__init__(
            f"{program} ended ({ended}) before it allocated anything: {run.last_error}"
        )
        self.run = run


class Runner:
    """Runs scripts from the folder ``programs`` with one Python in one environment.

    A script that takes longer than ``timeout_s`` is killed.  However the methods end, no script is
    left running that still uses the GPU.
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

    def run(self, program: str, *, profile: str | None = None, **variables: str) -> ScriptRun:
        """Run a script to its end; with ``profile``, as its copy with one more line."""
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
    ) -> Iterator[list[ScriptRun]]:
        """Run a script that uses its memory within the context.

        It holds its memory from the line that starts with ``sign`` until its stdin closes, which it
        waits for at its end. The list then contains its result.

        Raises ProgramDiedError if it never uses memory.
        """
        started = time.monotonic()
        with self._started(program, profile, variables, sign=sign) as child:
            if not child.gives_sign():
                raise ProgramDiedError(program, _read(child.finish(), started))
            ended: list[ScriptRun] = []
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
    ) -> Iterator[_Child]:
        environ = {**self.environ, **variables}
        if profile is not None:
            environ["GPUCONF_PROFILE"] = profile
        copy = self._copy(program, one_line_more=profile is not None)
        command = [self.python, str(copy)]
        with _started_child(command, environ, timeout_s=self._timeout_s, sign=sign) as child:
            yield child

    def _copy(self, program: str, *, one_line_more: bool) -> Path:
        (original,) = (f / program for f in self._programs if (f / program).exists())
        source = original.read_text(encoding="utf-8")
        copy = self.folder / f"{'with' if one_line_more else 'without'}_{program}"
        copy.write_text((FIRST_LINE if one_line_more else "") + source, encoding="utf-8")
        return copy


class _End(NamedTuple):
    """The exit code (negative for a signal), all output, and the reason if we killed it."""

    code: int
    output: str
    verdict: str = ""


class _Child:
    """A started script."""

    def __init__(
        self,
        family: AdoptingFamily,
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
        """Wait for the ``sign`` line; False if the script ended or timed out without one."""
        until = time.monotonic() + self._left_s
        while True:
            may_write = self._process.poll() is None
            lines = whole_text_of(self._output).splitlines()
            has_given = any(line.startswith(self._sign) for line in lines)
            self._left_s = until - time.monotonic()
            if has_given or not may_write or self._left_s < 0:
                return has_given
            time.sleep(_POLL_S)

    def finish(self) -> _End:
        """Close the script's stdin and let it run to its end; kill it when its time is up."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        verdict = ""
        try:
            self._process.wait(max(self._left_s, 0))
        except subprocess.TimeoutExpired:
            verdict = f"TimeoutError: killed after {self._timeout_s:g} s"
        self._family.end()
        return _End(self._process.wait(), whole_text_of(self._output), verdict)


@contextmanager
def _started_child(
    command: Sequence[str], environ: Mapping[str, str], *, timeout_s: float, sign: str = RESULT
) -> Iterator[_Child]:
    """Start a script; on exit, it and all processes that it started are killed.

    The script has ``timeout_s`` seconds in total. Only the time that we spend waiting for it
    counts: first for a line that starts with ``sign``, then for its end.
    """
    with memory_file("output") as output, AdoptingFamily() as family:
        process = family.start(
            command, environ, stdin=subprocess.PIPE, stdout=output, stderr=output
        )
        try:
            yield _Child(family, process, output, timeout_s=timeout_s, sign=sign)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _read(end: _End, started: float) -> ScriptRun:
    """Parse the output; the last line of a killed script may be truncated."""
    whole = [line for line in end.output.splitlines(keepends=True) if line.endswith("\n")]
    results = [line.removeprefix(RESULT) for line in whole if line.startswith(RESULT)]
    result = json.loads(results[-1]) if results else None
    created = {name: int(mb) for name, mb in _CREATED.findall(end.output)}
    log = f"{end.output}\n{end.verdict}\n" if end.verdict else end.output
    return ScriptRun(end.code, log, result, created, time.monotonic() - started)
