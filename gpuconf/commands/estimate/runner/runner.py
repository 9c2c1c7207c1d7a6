"""Run traced steps in a child process, on a simulated GPU or on this machine's GPU."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.basics.units import MIB, parse_duration, short_duration, sized
from gpuconf.commands.estimate.compile_target import CompileTarget
from gpuconf.commands.estimate.runner.child import Child
from gpuconf.commands.estimate.runner.environment import environ_for_simulation, environ_here
from gpuconf.commands.estimate.runner.exporting import CapturedVariable, export
from gpuconf.commands.estimate.runner.program import (
    ABORTED,
    DONE,
    ERROR,
    PEAKS,
    PROFILE,
    MeasuredPeaks,
    assignments,
    modules,
    read_peaks,
    results_of,
)
from gpuconf.commands.estimate.step import Step
from gpuconf.errors import BackendError, MissingDependencyError, UsageError
from gpuconf.simcard import CardSpec, XlaSupport, simulated_card
from gpuconf.simcard.compiling import check_platform
from gpuconf.simcard.installed import find_frameworks
from gpuconf.simcard.xla import xla_support
from gpuconf.support.failures import full_disk
from gpuconf.support.failures.unsupported import hint_of_refusal, refused_by_xla
from gpuconf.support.xplane import Event, read_events

TIMEOUT_VARIABLE = "GPUCONF_STEP_TIMEOUT"
_TIMEOUT_S = 600.0
_AMPLE_BYTES = 1 << 40  # of a GPU on which any step runs; no physical memory is used
# The second is in other errors, such as cuDNN's if all of its algorithms fail for lack of memory.
_OUT_OF_MEMORY = ("ResourceExhaustedError", "RESOURCE_EXHAUSTED")
_WITHOUT_XLA = "without XLA: gpuconf estimate … --no-jit"
_WHOLE_SCRIPT = "measure the whole script: gpuconf rehearse -- python train.py"
_EVENTS = ("MemoryAllocation", "MemoryDeallocation")
_ALLOCATOR = "GPU_0_bfc"
_LONGEST_REASON = 300
_LEAST_ROOM_BYTES = MIB  # for XLA's files; with less free, XLA failed for lack of disk space


class TooLargeError(BackendError):
    """The step did not run on the GPU whose entire memory is a single region."""


class KernelAbortedError(BackendError):
    """A kernel ended the step's process, as some do with more than 2**31 elements."""


class MeasuredRun(NamedTuple):
    """The result of a run: peaks, and the last step's allocations, from TensorFlow's profiler.

    ``events`` are those of the GPU's allocator, ordered by time. ``runs_in_limit`` is False if the
    step failed when it ran once more under the runner's limit. ``assignment`` and ``module`` are
    what XLA wrote about a compiled step.
    """

    peaks: MeasuredPeaks
    events: tuple[Event, ...]
    runs_in_limit: bool = True
    assignment: str = ""
    module: str = ""


class StepRunner:
    """Runs traced steps; a context manager that ends the child on exit.

    A step runs without its kernels, on a GPU that looks like ``target``: TensorFlow allocates as on
    a GPU, with or without ``allow_growth``, and nothing is computed. When ops run one by one, cuDNN
    gets ``workspace_bytes`` for each convolution in addition to its tensors. A step whose peak is
    near ``limit_bytes`` runs a second time under that limit, where it may fail for lack of a
    sufficiently large free block. With ``must_compile``, a step that XLA cannot compile is an
    error. ``progress`` gets a line before each run and more lines during it, since XLA may take
    minutes for a deep network. The timeout is 10 minutes, or the value of GPUCONF_STEP_TIMEOUT.

    If ``is_here``, every step runs on this machine's first GPU, with its kernels.

    Raises UsageError if that value is not a duration, or if the workspace is larger than the
    target's memory.
    """

    def __init__(
        self,
        target: CompileTarget,
        *,
        allow_growth: bool = True,
        workspace_bytes: int | None = None,
        limit_bytes: int | None = None,
        must_compile: bool = False,
        is_here: bool = False,
        environ: Mapping[str, str] = os.environ,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.target = target
        self._allow_growth = allow_growth
        self.workspace_bytes = workspace_bytes or 0
        if self.workspace_bytes > target.total_bytes:
            raise UsageError(
                f"a workspace of {sized(self.workspace_bytes)} for each convolution exceeds "
                f"the GPU's {sized(target.total_bytes)}",
                hint="--workspace-limit 256MiB; --card sets a different GPU size",
            )
        self._limit_bytes = limit_bytes
        self._must_compile = must_compile
        self.is_here = is_here
        self._environ = environ
        self._progress = progress or _silent
        self._timeout_s = _timeout(environ)
        self._context = ExitStack()
        self._child: Child | None = None
        self._compiles = False
        self._count = 0
        self.support: XlaSupport | None = None
        """The tools that XLA compiles with, once the child has started."""
        self.failed: Exception | None = None
        """Why steps are estimated without XLA."""

    def __enter__(self) -> StepRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child and its processes, and remove its files."""
        self._child = None
        self._context.close()

    def step(self, trace: Callable[[bool], Step], *, jit: bool) -> Step:
        """Call ``trace`` with True if XLA compiles the step, or False if it cannot.

        The first step decides for all, since the two kinds of figures are not comparable.  So
        later steps, and any step with ``must_compile``, raise the error of `compile`.
        """
        if not jit or self.failed is not None:
            return trace(False)
        try:
            made = trace(True)
        except TooLargeError:
            raise
        except (BackendError, MissingDependencyError) as error:
            if self._must_compile:
                raise
            self.failed = error
            return trace(False)
        self._must_compile = True
        return made

    def start(self, *, is_compiled: bool) -> Child:
        """Start the child, which imports TensorFlow while a step is traced.

        Raises BackendError if no simulated GPU is possible here, MissingDependencyError if a C
        compiler or libdevice is missing.
        """
        if self._child is not None and self._compiles != is_compiled:
            self.close()
        if self._child is None:
            self._compiles = is_compiled
            environ = self._environment_here() if self.is_here else self._card_environment()
            environ["TF_FORCE_GPU_ALLOW_GROWTH"] = str(self._allow_growth).lower()
            doing = "compiling or running" if is_compiled else "running"
            child = Child(
                environ,
                is_for_one=self.is_here,
                timeout_s=self._timeout_s,
                when_silent=lambda now_s: self._progress(f"still {doing} after {now_s:.0f} s"),
            )
            self._child = self._context.enter_context(child)
        return self._child

    def run(
        self,
        graph: Any,
        variables: Iterable[CapturedVariable],
        *,
        is_compiled: bool,
        counts_unread: bool = False,
    ) -> MeasuredRun:
        """Run a traced step, compiled by XLA if ``is_compiled``, and return what it used.

        Inputs that no operation reads are on the GPU only with ``counts_unread``.

        Raises BackendError if the step cannot run on its own, fails, or takes too long, and the
        same errors as `start`.
        """
        where = "on this machine's GPU" if self.is_here else "without its kernels"
        first = "compiling that step with XLA, and " if is_compiled else ""
        self._progress(f"{first}running it {where}" if first else f"running that step {where}")
        how = {"is_compiled": is_compiled, "counts_unread": counts_unread}
        with self._done(graph, variables, **how) as (child, folder):
            files = list((folder / PROFILE).rglob("*.xplane.pb"))
            events = [each for file in files for each in read_events(file.read_bytes(), _EVENTS)]
            of_gpu = (each for each in events if each.stats.get("allocator_name") == _ALLOCATOR)
            texts = (_assignment(folder), "\n".join(modules(folder))) if is_compiled else ()
            peaks = read_peaks(folder)
            runs_in_limit = self._runs_in_limit(child, folder, peaks)
            return MeasuredRun(peaks, tuple(of_gpu), runs_in_limit, *texts)

    def _runs_in_limit(self, child: Child, folder: Path, peaks: MeasuredPeaks) -> bool:
        """Run the step again under the limit, if it may fail there although its peak is lower."""
        limit, peak = self._limit_bytes, max(peaks.built_bytes, *peaks.step_bytes)
        if limit is None or self._compiles or self.is_here or not limit // 2 < peak <= limit:
            return True
        self._progress("running it again within the limit")
        with self._in_time():
            answer = child.ask(folder, limit)
        if answer == DONE:
            return True
        error = self._refused(child, results_of(folder, limit) / ERROR, answer)
        if isinstance(error, (TooLargeError, KernelAbortedError)):
            return False
        raise error

    @contextmanager
    def _done(
        self,
        graph: Any,
        variables: Iterable[CapturedVariable],
        *,
        is_compiled: bool,
        counts_unread: bool,
    ) -> Iterator[tuple[Child, Path]]:
        """Let the child run the step; yield it, and the folder that holds the results for now."""
        child = self.start(is_compiled=is_compiled)
        with self._in_time():
            if not child.is_ready():
                why = f"the process for the step did not start: {child.last_words()}"
                raise BackendError(why, hint=self._way_out)
        folder = child.folder / str(self._count)
        self._count += 1
        try:
            folder.mkdir()
            export(
                *(graph, variables, folder), is_compiled=is_compiled, counts_unread=counts_unread
            )
        except OSError as error:
            raise _unwritten(child.folder, error.strerror) from error
        try:
            with self._in_time():
                answer = child.ask(folder)
            is_done = (folder / PEAKS).is_file() if self.is_here else answer == DONE
            if not is_done:
                raise self._refused(child, folder / ERROR, answer)
            yield child, folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # tens of MB for a deep network
            if self.is_here or child.has_ended:
                self.close()

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Turn a timeout of the child into a BackendError, and end the child."""
        try:
            yield
        except TimeoutError:
            self.close()
            raise BackendError(
                f"the step did not finish within {short_duration(self._timeout_s)}",
                hint=f"{TIMEOUT_VARIABLE}=1h waits longer; {self._way_out}",
            ) from None

    @property
    def _way_out(self) -> str:
        return _WITHOUT_XLA if self._compiles else _WHOLE_SCRIPT

    def _card_environment(self) -> dict[str, str]:
        """The environment for a simulated GPU like the target, with room for any step."""
        check_platform()
        found = find_frameworks([sys.executable], self._environ)
        if found.tensorflow is not None and not found.tensorflow.is_cuda_build:
            raise BackendError(
                "measuring a step needs TensorFlow's GPU code, but this build does not have it "
                "(tensorflow-cpu)",
                hint="pip install tensorflow (no GPU is needed)",
            )
        self.support = xla_support(found, environ=self._environ) if self._compiles else None
        major, minor = self.target.compute_capability
        # TensorFlow keeps 8 bytes for each 256 of a region, and a region has everything here if
        # memory does not grow.
        least = max(self.target.total_bytes, 2 * (self._limit_bytes or 0))
        total_bytes = _AMPLE_BYTES if self._allow_growth else least
        spec = CardSpec(total_bytes, compute_capability=f"{major}.{minor}")
        card = self._context.enter_context(simulated_card(spec))
        base = environ_for_simulation(
            self._environ,
            total_bytes=self.target.total_bytes,
            workspace_bytes=self.workspace_bytes,
        )
        return card.environment(base, xla=self.support)

    def _environment_here(self) -> dict[str, str]:
        if not self.target.is_here:
            raise BackendError(
                "this machine has no NVIDIA GPU to measure on", hint="gpuconf doctor"
            )
        return environ_here(self._environ)

    def _refused(self, child: Child, file: Path, answer: bytes) -> BackendError:
        reason = file.read_text(encoding="utf-8") if file.is_file() else child.last_words()
        if shutil.disk_usage(child.folder).free < _LEAST_ROOM_BYTES:
            return _unwritten(child.folder, os.strerror(errno.ENOSPC))
        if self._compiles and (refusal := refused_by_xla(reason)) is not None:
            return BackendError(refusal, hint=f"{hint_of_refusal(refusal)}, as --no-jit does here")
        if _is_out_of_memory(reason):
            return TooLargeError(
                f"the step needs more than the GPU's {sized(self.target.total_bytes)}",
                hint="use a smaller --batch-size, or --card 80GiB for a larger GPU",
            )
        shown = " ".join(reason.split())
        if len(shown) > _LONGEST_REASON:
            shown = f"{shown[:_LONGEST_REASON]} …"
        cannot = (
            "XLA cannot compile this step" if self._compiles else "this step cannot run on its own"
        )
        kind = KernelAbortedError if answer == ABORTED else BackendError
        return kind(f"{cannot}: {shown}", hint=self._way_out)


def _assignment(folder: Path) -> str:
    """XLA's account of the step that it compiled last."""
    found = assignments(folder)
    if not found:
        raise BackendError("XLA wrote no report on the compiled step", hint=_WITHOUT_XLA)
    return found[-1]


def _is_out_of_memory(reason: str) -> bool:
    return any(sign in reason for sign in _OUT_OF_MEMORY)


def _timeout(environ: Mapping[str, str]) -> float:
    """How long to wait for one step, in seconds."""
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
    return BackendError(f"cannot write to {folder}: {reason}", hint=full_disk.HINT)


def _silent(_text: str) -> None:
    """For callers that show no progress."""
