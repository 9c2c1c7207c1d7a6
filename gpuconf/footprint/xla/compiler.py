"""TensorFlow's own XLA, compiling for a described GPU in a child on a simulated card."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from gpuconf.children.family import ProcessFamily
from gpuconf.errors import BackendError
from gpuconf.footprint.compile_target import CompileTarget
from gpuconf.footprint.keras_models.outputs import in_short
from gpuconf.footprint.simulated import environ_for_simulation
from gpuconf.footprint.xla.assignment import Assignment, read_assignment
from gpuconf.footprint.xla.exporting import export
from gpuconf.footprint.xla.program import ERROR, assignments, modules
from gpuconf.simcard import CardSpec, XlaSupport, simulated_card
from gpuconf.simcard.installed import find_frameworks
from gpuconf.simcard.xla import xla_support

_PROGRAM = "gpuconf.footprint.xla.program"
_KERNELS = "GPUCONF_SIMCARD_KERNELS"
_WORKSPACE = "GPUCONF_SIMCARD_CUDNN_WORKSPACE"
_WITHOUT = "without XLA: gpuconf estimate … --no-jit"
_LONGEST_REASON = 300


class Compiler:
    """Compiles traced steps for ``target``; a context, after which nothing of it is left.

    The child starts with the first step.  ``workspace_bytes`` is what each convolution of cuDNN's
    is given beside its tensors, by the compiler itself.
    """

    def __init__(
        self,
        target: CompileTarget,
        *,
        workspace_bytes: int | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.target = target
        self.workspace_bytes = workspace_bytes or 0
        self._environ = environ
        self._context = ExitStack()
        self._child: subprocess.Popen[bytes] | None = None
        self._folder = Path()
        self._count = 0
        self.support: XlaSupport | None = None
        self.failed: Exception | None = None  # why a step was counted without XLA instead

    def __enter__(self) -> Compiler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._child = None
        self._context.close()

    def compile(self, graph: Any) -> Assignment:
        """The buffer assignment of a traced step.

        Raises BackendError where XLA refuses it or cannot compile here, and
        MissingDependencyError where a compiler of C or libdevice is missing.
        """
        child = self._started()
        folder = self._folder / str(self._count)
        self._count += 1
        folder.mkdir()
        export(graph, folder)
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(f"{folder}\n".encode())
            child.stdin.flush()
            answer = child.stdout.readline().strip()
        except OSError:
            answer = b""
        if answer != b"done":
            raise self._refused(folder)
        text, module = assignments(folder)[-1], "\n".join(modules(folder))
        return read_assignment(text, module)

    def _started(self) -> subprocess.Popen[bytes]:
        """The child, ready."""
        if self._child is not None:
            return self._child
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
        base = {**environ_for_simulation(self._environ), _KERNELS: "skip"}
        base[_WORKSPACE] = str(self.workspace_bytes)
        base["TF_CPP_MIN_LOG_LEVEL"] = "2"
        self._folder = Path(self._context.enter_context(tempfile.TemporaryDirectory()))
        family = self._context.enter_context(ProcessFamily())
        with open(self._folder / "stderr", "wb") as stderr:
            child = family.start(
                [sys.executable, "-m", _PROGRAM],
                card.environment(base, xla=self.support),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        self._context.callback(_close, child)
        assert child.stdout is not None
        if child.stdout.readline().strip() != b"ready":
            raise BackendError(f"XLA's process did not start: {self._last_words()}", hint=_WITHOUT)
        self._child = child
        return child

    def _refused(self, folder: Path) -> BackendError:
        file = folder / ERROR
        reason = file.read_text(encoding="utf-8") if file.is_file() else self._last_words()
        shown = in_short(ValueError(reason))
        if len(shown) > _LONGEST_REASON:
            shown = f"{shown[:_LONGEST_REASON]} …"
        return BackendError(f"XLA cannot compile this step: {shown}", hint=_WITHOUT)

    def _last_words(self) -> str:
        text = (self._folder / "stderr").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


def _close(child: subprocess.Popen[bytes]) -> None:
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # what was written to a child that is gone
                continue
