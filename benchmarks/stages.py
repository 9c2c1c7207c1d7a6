"""Where TensorFlow computes: on the CPU, on the simulated GPU, or on a GPU; and child processes.

A stage is an environment for child processes.  For ``benchmarks.estimate`` all run one operation at
a time (inter-op 1), because the peak of a step depends on which of two nodes happens to run first.
A child prints its results as lines of JSON, see ``RESULT``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.training.on_device import (
    CARD,
    COMPARABLE_CPU,
    INTER_OP_VARIABLE,
    RESULT,
    SIDE_VARIABLE,
)
from gpuconf.basics.units import MIB
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card, xla_for_command

ROOT = Path(__file__).resolve().parents[1]
SPEC = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB)
# More than any case needs; without it, the CPU's allocator takes all memory there is.
_AMPLE_MIB = 16384
# Read by `estimate.child`: the memory limit of TensorFlow's GPU, and whether XLA compiles.
CARD_LIMIT_VARIABLE = "ESTIMATE_CARD_LIMIT_MIB"
JIT_VARIABLE = "ESTIMATE_JIT"
_STEERING = ("TF_", "XLA_", "KERAS_", "CUDA_", "GPUCONF_")
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "-1"}
_LAST_LINES = 12
_CASES_TIMEOUT_S = 3000


class Stage(NamedTuple):
    """A name for the tables, and the environment and the Python of its processes."""

    name: str
    environ: Mapping[str, str]
    python: str = sys.executable


class ChildError(Exception):
    """A child process that ended without its result."""


class Result(NamedTuple):
    """The result of one case on one stage; ``error`` is None if it succeeded."""

    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]
    error: str | None = None


def plain_environ(
    environ: Mapping[str, str], *, side: str = "", inter_op_threads: int | None = None
) -> dict[str, str]:
    """``environ`` without TensorFlow's settings; children can import this package."""
    kept = {key: value for key, value in environ.items() if not key.startswith(_STEERING)}
    paths = [str(ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    kept |= {"PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "1"}
    kept |= {SIDE_VARIABLE: side} if side else {}
    return kept | ({INTER_OP_VARIABLE: str(inter_op_threads)} if inter_op_threads else {})


def _cpu_environ(environ: Mapping[str, str], side: str, threads: int | None) -> dict[str, str]:
    """TensorFlow without a GPU, with the allocator that it uses for GPUs elsewhere.

    oneDNN's kernels are off: the GPU has none, and an OOM in one aborts the process.  This
    allocator always grows by regions (``allow_growth`` in TensorFlow's process_state.cc), and never
    coalesces across them.
    """
    return {
        **plain_environ(environ, side=side, inter_op_threads=threads),
        **_NO_GPU,
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(_AMPLE_MIB),
    }


def comparable_cpu(environ: Mapping[str, str], *, inter_op_threads: int | None = None) -> Stage:
    """The CPU with the same kernels and graphs as on the GPU.

    Grappler's remapper and layout optimizer are off (see ``on_device.prepare``): they would fuse
    nodes of the graph into other kernels.
    """
    return Stage(COMPARABLE_CPU, _cpu_environ(environ, COMPARABLE_CPU, inter_op_threads))


def default_cpu(environ: Mapping[str, str], *, inter_op_threads: int | None = None) -> Stage:
    """TensorFlow without a GPU and with all its defaults."""
    name = "default-cpu"
    made = plain_environ(environ, side=name, inter_op_threads=inter_op_threads)
    return Stage(name, {**made, **_NO_GPU})


@contextmanager
def card(
    environ: Mapping[str, str],
    *,
    inter_op_threads: int | None = None,
    python: str = sys.executable,
    spec: CardSpec = SPEC,
) -> Iterator[Stage]:
    """The simulated GPU with the kernel bridge and no other settings, as for users."""
    with simulated_card(spec) as made:
        clean = plain_environ(environ, side=CARD, inter_op_threads=inter_op_threads)
        bridge = bridge_for_command([python], environ=clean)
        yield Stage(CARD, made.environment(clean, bridge=bridge), python)


@contextmanager
def measured_card(environ: Mapping[str, str]) -> Iterator[Stage]:
    """The simulated GPU with TensorFlow's own GPU kernels, of which none is launched.

    So only memory is measured.  There are no other programs, and its memory is one region.
    """
    with simulated_card(CardSpec(_AMPLE_MIB * MIB)) as made:
        clean = plain_environ(environ, side=CARD, inter_op_threads=1)
        yield Stage(CARD, {**made.environment(clean), "GPUCONF_SIMCARD_KERNELS": "skip"})


@contextmanager
def xla_card(environ: Mapping[str, str]) -> Iterator[Stage]:
    """The same, but XLA compiles each step."""
    with measured_card(environ) as stage:
        made = dict(stage.environ)
        made |= xla_for_command([sys.executable], environ=made).environment(made)
        yield Stage("card-xla", {**made, JIT_VARIABLE: "1"})


def gpu(environ: Mapping[str, str]) -> Stage:
    """This machine's own GPU, one operation at a time, with the memory of a common GPU at once."""
    made = plain_environ(environ, side=CARD, inter_op_threads=1)
    return Stage("gpu", {**made, CARD_LIMIT_VARIABLE: str(SPEC.total_bytes // MIB)})


def xla_gpu(environ: Mapping[str, str]) -> Stage:
    """The same, but XLA compiles each step, and tries algorithms in the first one."""
    return Stage("gpu-xla", {**gpu(environ).environ, JIT_VARIABLE: "1"})


_STAGES: dict[str, Callable[[Mapping[str, str]], Stage]] = {
    "gpu": gpu,
    "gpu-xla": xla_gpu,
}
_CARDS = {"card": measured_card, "card-xla": xla_card}


def open_stage(name: str, environ: Mapping[str, str], stack: ExitStack) -> Stage:
    """The stage with this name for ``benchmarks.estimate``; a GPU exists as long as ``stack``."""
    if name in _CARDS:
        return stack.enter_context(_CARDS[name](environ))
    return _STAGES[name](environ)


def limited(stage: Stage, limit_mib: int) -> Stage:
    """The stage with this memory limit for TensorFlow, which its name includes."""
    limit = {CARD_LIMIT_VARIABLE: str(limit_mib)}
    return Stage(f"{stage.name}, {limit_mib} MiB", {**stage.environ, **limit})


def run_child(stage: Stage, words: Sequence[str], timeout_s: float) -> tuple[list[Any], str]:
    """The results that a child prints, and how it ended, with the last lines of its stderr.

    Raises ChildError if it takes too long.  It is then asked to end (SIGTERM) and has 10 s to do
    so.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [stage.python, *words],
        env=dict(stage.environ),
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        encoding="utf-8",
        errors="replace",
    ) as child:
        try:
            out, err = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.terminate()
            try:
                child.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
            raise ChildError(f"took more than {timeout_s:.0f} s") from None
    results = [line.removeprefix(RESULT) for line in out.splitlines() if line.startswith(RESULT)]
    last = "\n".join([line.strip() for line in err.splitlines() if line.strip()][-_LAST_LINES:])
    ending = f"the process ended with code {child.returncode}:\n{last}"
    return [json.loads(result) for result in results], ending


def run_module(module: str, argument: object, stage: Stage, timeout_s: float) -> list[Any]:
    """The results of ``python -m MODULE ARGUMENT``; raises ChildError if there are none."""
    found, ending = run_child(stage, ["-m", module, json.dumps(argument)], timeout_s)
    if not found:
        raise ChildError(" | ".join(ending.splitlines()))
    return found


def run_cases(stage: Stage, program: Path, names: Sequence[str], folder: Path) -> dict[str, Result]:
    """Run ``program`` (see :func:`on_device.run_cases`) on a stage until every case has ended.

    If a process fails, its last output is the error of the case that it was running, and the
    remaining cases continue in a fresh process: a crash never hides the other rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, Result] = {}
    left = list(names)
    while left:
        printed, ending = run_child(stage, [str(program), str(folder), *left], _CASES_TIMEOUT_S)
        results |= {each["ended"]: _result(each) for each in printed if "ended" in each}
        begun = [each["begun"] for each in printed if "begun" in each]
        left = [name for name in left if name not in results]
        if left:
            at = begun[-1] if begun and begun[-1] in left else left[0]
            results[at] = Result({}, {}, ending)
            left.remove(at)
    return results


def _result(printed: Mapping[str, Any]) -> Result:
    if "error" in printed:
        return Result({}, {}, printed["error"])
    file = Path(printed["file"])
    with np.load(file) as stored:
        arrays = {key: stored[key] for key in stored.files}
    file.unlink()
    return Result(arrays, printed["facts"])
