"""Compile for a described GPU with TensorFlow's XLA, in a child process on a simulated GPU."""

from __future__ import annotations

import errno
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from gpuconf.basics.units import MIB, parse_duration, short_duration, sized
from gpuconf.commands.estimate.compile_target import CompileTarget
from gpuconf.commands.estimate.simulated import environ_for_simulation
from gpuconf.commands.estimate.step import Step
from gpuconf.commands.estimate.xla.assignment import Assignment, read_assignment
from gpuconf.commands.estimate.xla.exporting import export
from gpuconf.commands.estimate.xla.program import ERROR, assignments, ended_by, modules
from gpuconf.errors import BackendError, MissingDependencyError, UsageError
from gpuconf.simcard import CardSpec, XlaSupport, simulated_card
from gpuconf.simcard.compiling import check_platform
from gpuconf.simcard.installed import find_frameworks
from gpuconf.simcard.xla import xla_support
from gpuconf.support.children.family import AdoptingFamily
from gpuconf.support.failures import full_disk
from gpuconf.support.failures.unsupported import hint_of_refusal, refused_by_xla

TIMEOUT_VARIABLE = "GPUCONF_XLA_TIMEOUT"
_TIMEOUT_S = 600.0
_REPORT_S = 30.0  # between progress lines
_PROGRAM = "gpuconf.commands.estimate.xla.program"
# The child only compiles and never runs a step; TensorFlow's warnings do not concern the user.
_QUIET = {"GPUCONF_SIMCARD_KERNELS": "skip", "TF_CPP_MIN_LOG_LEVEL": "2"}
_WITHOUT = "without XLA: gpuconf estimate … --no-jit"
_LONGEST_REASON = 300
_LEAST_ROOM_BYTES = MIB  # for XLA's files; with less free, XLA failed for lack of disk space
_END_S = 1.0  # between the end of the child's output and its exit
_NOTICE = re.compile(r"[IW]\d{4} |WARNING: All log messages")


class Compiler:
    """Compile traced steps for ``target``; a context manager that ends the child on exit.

    The child starts before the first step is traced.  Each cuDNN convolution gets
    ``workspace_bytes`` in addition to its tensors.  With ``must_compile``, a step that cannot be
    compiled is an error.  ``progress`` gets a line before each compilation and more lines during
    it, since XLA may take minutes for a deep network.  The timeout is 10 minutes, or the value of
    GPUCONF_XLA_TIMEOUT.

    Raises UsageError if that value is not a duration.
    """

    def __init__(
        self,
        target: CompileTarget,
        *,
        workspace_bytes: int | None = None,
        must_compile: bool = False,
        environ: Mapping[str, str] = os.environ,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.target = target
        self.workspace_bytes = workspace_bytes or 0
        self._must_compile = must_compile
        self._environ = environ
        self._progress = progress
        self._timeout_s = _timeout(environ)
        self._context = ExitStack()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._folder = Path()
        self._count = 0
        self.support: XlaSupport | None = None
        """The tools that XLA compiles with, once the child has started."""
        self.failed: Exception | None = None
        """Why steps are estimated without XLA."""

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end_child()

    def step(self, trace: Callable[[Compiler | None], Step]) -> Step:
        """Call ``trace`` with this compiler, or with None if XLA cannot compile the step.

        The first step decides for all, since the two kinds of figures are not comparable.  So
        later steps, and any step with ``must_compile``, raise the error of `compile`.
        """
        if self.failed is not None:
            return trace(None)
        try:
            made = trace(self)
        except (BackendError, MissingDependencyError) as error:
            if self._must_compile:
                raise
            self.failed = error
            return trace(None)
        self._must_compile = True
        return made

    def compile(self, graph: Any) -> Assignment:
        """Compile a traced step and return its buffer assignment.

        Raises BackendError if XLA refuses the step, takes too long or cannot compile here,
        MissingDependencyError if a C compiler or libdevice is missing, and UsageError if the
        workspace is larger than the GPU's memory.
        """
        if self.workspace_bytes > self.target.total_bytes:
            raise UsageError(
                f"a workspace of {sized(self.workspace_bytes)} for each convolution is more than "
                f"the GPU's {sized(self.target.total_bytes)}",
                hint="--workspace-limit 256MiB; --card gives the GPU another size",
            )
        self._report("compiling that step with XLA")
        child = self._ready()
        folder = self._folder / str(self._count)
        self._count += 1
        try:
            folder.mkdir()
            export(graph, folder)
        except OSError as error:
            raise _unwritten(self._folder, error.strerror) from error
        assert child.stdin is not None
        try:
            child.stdin.write(f"{folder}\n".encode())
            child.stdin.flush()
            answer = self._answer(child)
        except OSError:
            answer = b""
        if answer != b"done":
            raise self._refused(child, folder)
        text, module = assignments(folder)[-1], "\n".join(modules(folder))
        shutil.rmtree(folder, ignore_errors=True)  # tens of MB for a deep network
        return read_assignment(text, module, workspace_bytes=self.workspace_bytes)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the child, which imports TensorFlow while a step is traced; raises as `compile`."""
        if self._child is None:
            self._child = self._start(self._card_environment())
        return self._child

    def _ready(self) -> subprocess.Popen[bytes]:
        """The child, once it is ready for steps."""
        child = self.start()
        if not self._is_ready:
            if self._answer(child) != b"ready":
                why = f"XLA's process did not start: {self._end(child)}"
                raise BackendError(why, hint=_WITHOUT)
            self._is_ready = True
        return child

    def _answer(self, child: subprocess.Popen[bytes]) -> bytes:
        """The child's next line, empty if the child has ended; BackendError on timeout."""
        assert child.stdout is not None
        started_s = time.monotonic()
        poll = select.poll()
        poll.register(child.stdout, select.POLLIN)
        while (left_s := self._timeout_s - (time.monotonic() - started_s)) > 0:
            if poll.poll(1000 * min(left_s, _REPORT_S)):
                return child.stdout.readline().strip()
            self._report(f"XLA is still compiling, after {time.monotonic() - started_s:.0f} s")
        self._end_child()
        limit = short_duration(self._timeout_s)
        raise BackendError(
            f"XLA has not compiled this step within {limit}",
            hint=f"{TIMEOUT_VARIABLE}=1h waits longer; {_WITHOUT}",
        )

    def _report(self, text: str) -> None:
        if self._progress is not None:
            self._progress(text)

    def _end_child(self) -> None:
        """End the child and its processes, and remove its files."""
        self._child, self._is_ready = None, False
        self._context.close()

    def _card_environment(self) -> dict[str, str]:
        """The environment of a simulated GPU like the target, for TensorFlow's XLA."""
        check_platform()
        found = find_frameworks([sys.executable], self._environ)
        if found.tensorflow is not None and not found.tensorflow.is_cuda_build:
            raise BackendError(
                "XLA compiles for a GPU only in a TensorFlow with CUDA, and this is a build "
                "without (tensorflow-cpu)",
                hint="pip install tensorflow (no GPU is needed)",
            )
        self.support = xla_support(found, environ=self._environ)
        major, minor = self.target.compute_capability
        spec = CardSpec(self.target.total_bytes, compute_capability=f"{major}.{minor}")
        card = self._context.enter_context(simulated_card(spec))
        base = {**environ_for_simulation(self._environ), **_QUIET}
        return card.environment(base, xla=self.support)

    def _start(self, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        folder = tempfile.TemporaryDirectory(prefix="gpuconf-xla-")
        self._folder = Path(self._context.enter_context(folder))
        family = self._context.enter_context(AdoptingFamily())
        with open(self._folder / "stderr", "wb") as stderr:
            child = family.start(
                [sys.executable, "-m", _PROGRAM],
                {**environ, "TMPDIR": str(self._folder)},  # a killed worker leaves its files
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        self._context.callback(_close, child)
        return child

    def _refused(self, child: subprocess.Popen[bytes], folder: Path) -> BackendError:
        file = folder / ERROR
        reason = file.read_text(encoding="utf-8") if file.is_file() else self._end(child)
        if shutil.disk_usage(folder).free < _LEAST_ROOM_BYTES:
            return _unwritten(self._folder, os.strerror(errno.ENOSPC))
        if (refusal := refused_by_xla(reason)) is not None:
            return BackendError(refusal, hint=f"{hint_of_refusal(refusal)}, as --no-jit does here")
        shown = " ".join(reason.split())
        if len(shown) > _LONGEST_REASON:
            shown = f"{shown[:_LONGEST_REASON]} …"
        return BackendError(f"XLA cannot compile this step: {shown}", hint=_WITHOUT)

    def _end(self, child: subprocess.Popen[bytes]) -> str:
        """How the child ended, or the last line it wrote that is more than a notice."""
        code = _exit_code(child)
        if code is not None and code < 0:
            return ended_by(-code)
        text = (self._folder / "stderr").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if line.strip() and not _NOTICE.match(line)]
        return lines[-1] if lines else f"it ended with exit code {code}"


def _timeout(environ: Mapping[str, str]) -> float:
    """How long to wait for XLA, in seconds."""
    text = environ.get(TIMEOUT_VARIABLE)
    if not text:
        return _TIMEOUT_S
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(
            f"{TIMEOUT_VARIABLE}={text}: {error}", hint=f"{TIMEOUT_VARIABLE}=30min"
        ) from None


def _unwritten(folder: Path, reason: str | None) -> BackendError:
    return BackendError(f"nothing can be written to {folder}: {reason}", hint=full_disk.HINT)


def _exit_code(child: subprocess.Popen[bytes]) -> int | None:
    """The child's exit code; None if it is still running after one of its workers failed."""
    try:
        return child.wait(timeout=_END_S)
    except subprocess.TimeoutExpired:
        return None


def _close(child: subprocess.Popen[bytes]) -> None:
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # data for a child that has ended
                continue
