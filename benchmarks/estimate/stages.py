"""Where steps are measured: TensorFlow's allocator on the CPU, the simulated card, or a GPU.

A stage is an environment for child processes.  All run one operation at a time (inter-op 1),
because the peak of a step depends on which of two nodes happens to run first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.training.on_device import CARD, INTER_OP_VARIABLE, SIDE_VARIABLE
from benchmarks.training.sides import card
from gpuconf.simcard import CardSpec, xla_for_command
from gpuconf.simcard.bridge import VARIABLE
from gpuconf.units import MIB

ROOT = Path(__file__).resolve().parents[2]
# More than any case needs; without it, the CPU's allocator takes all memory there is.
_AMPLE_MIB = 16384
# Read by `stage_child`: the memory limit of TensorFlow's logical device.
CARD_LIMIT_VARIABLE = "ESTIMATE_CARD_LIMIT_MIB"
# Likewise: grappler's memory pass is off.
NO_MEMORY_PASS_VARIABLE = "ESTIMATE_NO_MEMORY_PASS"
# Likewise: XLA compiles the model.
JIT_VARIABLE = "ESTIMATE_JIT"
_STEERING = ("TF_", "XLA_", "KERAS_", "CUDA_", "GPUCONF_")
_DYING_WORDS = 6


class Stage(NamedTuple):
    """The name, and the environment and options of its processes."""

    name: str
    environ: Mapping[str, str]


class ChildError(Exception):
    """A child process that ended without its result."""


def cpu_stage(environ: Mapping[str, str]) -> Stage:
    """TensorFlow without a GPU, with the allocator that it uses for GPUs elsewhere.

    oneDNN's kernels are off: an OOM in one aborts the process.  This allocator always grows by
    regions (``allow_growth`` in TensorFlow's process_state.cc), and never coalesces across them.
    """
    more = {
        SIDE_VARIABLE: "cpu-bfc",  # not the side "cpu", which turns parts of grappler off
        INTER_OP_VARIABLE: "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(_AMPLE_MIB),
    }
    return Stage("cpu", {**plain_environ(environ), **more})


def ample_cpu_stage(environ: Mapping[str, str]) -> Stage:
    """The CPU with the graphs of a GPU that has ample memory.

    TensorFlow's CPU device claims to have 256 MiB. Above 80 % of that, grappler's memory pass
    rewrites sums of three or more gradients (``SchedulingPass`` in memory_optimizer.cc), and their
    zeros become constants that stay: ``AddN_1/tmp_var_zeros``.  On a GPU it does the same, but
    above 80 % of the GPU's limit.
    """
    return Stage("cpu-ample", {**cpu_stage(environ).environ, NO_MEMORY_PASS_VARIABLE: "1"})


@contextmanager
def card_stage(environ: Mapping[str, str]) -> Iterator[Stage]:
    """The simulated card with the kernel bridge and no other programs; its memory is one region."""
    spec = CardSpec(total_bytes=_AMPLE_MIB * MIB)
    with card(plain_environ(environ), inter_op_threads=1, spec=spec) as side:
        yield Stage("card", side.environ)


@contextmanager
def xla_stage(environ: Mapping[str, str]) -> Iterator[Stage]:
    """The simulated card; XLA compiles each step and no kernel runs, so only memory is measured."""
    with card_stage(environ) as stage:
        made = {key: value for key, value in stage.environ.items() if key != VARIABLE}
        made |= xla_for_command([sys.executable], environ=made).environment(made)
        yield Stage("card-xla", {**made, "GPUCONF_SIMCARD_KERNELS": "skip", JIT_VARIABLE: "1"})


def gpu_stage(environ: Mapping[str, str]) -> Stage:
    """This machine's own GPU, one operation at a time, all of its memory at once."""
    return Stage("gpu", {**plain_environ(environ), SIDE_VARIABLE: CARD, INTER_OP_VARIABLE: "1"})


def gpu_xla_stage(environ: Mapping[str, str]) -> Stage:
    """The same, but XLA compiles each step, and tries algorithms in the first one."""
    return Stage("gpu-xla", {**gpu_stage(environ).environ, JIT_VARIABLE: "1"})


def limited(stage: Stage, limit_mib: int) -> Stage:
    """The stage with this memory limit for TensorFlow, which its name includes."""
    variable = "TF_CPU_BFC_MEM_LIMIT_IN_MB" if stage.name.startswith("cpu") else CARD_LIMIT_VARIABLE
    return Stage(f"{stage.name}, {limit_mib} MiB", {**stage.environ, variable: str(limit_mib)})


def plain_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` without TensorFlow's settings; children can import this package."""
    kept = {key: value for key, value in environ.items() if not key.startswith(_STEERING)}
    paths = [str(ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths), "TF_CPP_MIN_LOG_LEVEL": "1"}


def run_child(
    module: str, argument: object, *, environ: Mapping[str, str], told: str, timeout_s: float
) -> Iterator[Any]:
    """Yield the decoded lines starting with ``told`` from ``python -m module ARGUMENT``.

    Raises ChildError, with the end of its stderr, if there are none or it takes too long.  It is
    then asked to end (SIGTERM) and has 10 s to do so.
    """
    command = [sys.executable, "-m", module, json.dumps(argument)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    ) as child:
        try:
            out, err = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end(child)
            raise ChildError(f"took more than {timeout_s:.0f} s") from None
    lines = out.decode("utf-8", "replace").splitlines()
    found = [json.loads(line.removeprefix(told)) for line in lines if line.startswith(told)]
    if not found:
        words = " | ".join(_last_lines(err.decode("utf-8", "replace").splitlines()))
        raise ChildError(f"ended with code {child.returncode}: {words}")
    yield from found


def _last_lines(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()][-_DYING_WORDS:]


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
