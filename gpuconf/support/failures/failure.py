"""An error and the end of stderr -> why a program failed on a GPU or a simulated GPU.  Pure.

Causes and figures come from `gpuconf.support.failures.reader`.  This module adds the failures of a
simulated GPU, which does not support everything that a real GPU does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from gpuconf.basics.json_shape import Bytes, Count
from gpuconf.support.failures.causes import NOT_GPU, OF_GPU_MEMORY, CauseId
from gpuconf.support.failures.facts.tensor import Tensor, node_in, requested_bytes
from gpuconf.support.failures.headline import headline
from gpuconf.support.failures.reader import read, read_error
from gpuconf.support.failures.reading import Reading
from gpuconf.support.failures.unsupported import refused_by_xla

Kind = Literal["gpu_memory", "host_memory", "kernel", "bridge", "refused", "script"]

_KERNEL = "gpuconf simulated GPU: the program launched the GPU kernel"  # the kernel follows
_BRIDGE_LOAD = (
    "libgpuconf_bridge.so: undefined symbol",
    "kernel bridge of the simulated GPU was built for TensorFlow",
)
_NCCL = re.compile(r"\bNCCL\b|\bNccl|CollectiveReduce|CollectiveBcast|CollectiveAllReduce")
_WITHOUT_NCCL = (
    "simulated GPUs have no NCCL; MirroredStrategy("
    "cross_device_ops=tf.distribute.HierarchicalCopyAllReduce()) does without"
)
_GPU_ONLY = "gpu-only-operation"
# Causes in libraries that a simulated GPU lacks; if their status is a failed allocation, it is a
# memory problem.
_NOT_SIMULATED = ("cudnn-internal", "cublas-alloc")
# A line of TensorFlow's log: "I0000 00:00:17…", "2026-11-21 12:00:00.1: W tensorflow/…".
_LOG_LINE = re.compile(
    r"[IWEF]\d{4} \d\d:|\d{4}-\d\d-\d\d [\d:.]{1,40}: [IWEF] |WARNING: All log mess"
)


class Failure(NamedTuple):
    """Why a program failed.  None means unknown."""

    kind: Kind
    """The kind of failure."""
    message: str
    """One line for people."""
    node: str | None = None
    """The operation's full name, as TensorFlow prints it."""
    shape: tuple[Count, ...] | None = None
    """The shape of the tensor that could not be allocated."""
    dtype: str | None = None
    """Its dtype."""
    asked_bytes: Bytes | None = None
    """The requested size."""
    device: str | None = None
    """The device, for example GPU:0."""
    in_use_bytes: Bytes | None = None
    """The allocator's memory in use at that time; TF_CPP_MIN_LOG_LEVEL can hide it."""
    cause: CauseId = NOT_GPU
    """The cause, as in `gpuconf explain`."""


def failure_of(error: Mapping[str, Any] | None, stderr: str) -> Failure:
    """The failure in ``error`` (type and message from the child process) and the end of stderr.

    If there is no error, a signal or C++ code ended the program, and only stderr can show why.
    """
    _, launched, below = stderr.partition(f"{_KERNEL}\n")
    if launched:
        name = _short_kernel(below.partition("\n")[0])
        message = f"the program launched the GPU kernel {name}"
        return Failure("kernel", message, node=name, cause=_GPU_ONLY)
    for line in f"{(error or {}).get('message', '')}\n{stderr}".splitlines():
        if any(words in line for words in _BRIDGE_LOAD):
            return Failure("bridge", line.strip().removeprefix("gpuconf: error: "))
    if error is None:
        return Failure("script", _last_line(stderr))
    kind, message = str(error.get("type", "")), str(error.get("message", ""))
    if kind in ("profile", "dependency", "backend"):
        return Failure("refused", message)
    refusal = refused_by_xla(message)
    if refusal is not None:
        return Failure("script", refusal)
    return _of_error(kind, message, stderr)


def _of_error(kind: str, message: str, stderr: str) -> Failure:
    text = f"{kind}: {message}"
    reading = read(text)
    if reading.evidence:  # the log does not explain an error of the script itself
        reading = read_error(kind, message, stderr)
    line, details = headline(message, reading), reading.facts.details
    first = f"{kind}: {line}" if line else kind  # a bare "MemoryError" is common
    if reading.cause == "host-oom":
        return _of_memory("host_memory", line if _tensor(reading) else first, reading)
    status, operation = str(details.get("status", "")), details.get("operation")
    if reading.cause in _NOT_SIMULATED and not status.endswith("ALLOC_FAILED"):
        return Failure("kernel", first, node=node_in(text), cause=reading.cause)
    if reading.cause == _GPU_ONLY and isinstance(operation, str):
        return Failure("kernel", f"{operation}: {line}", node=operation, cause=_GPU_ONLY)
    if reading.cause in OF_GPU_MEMORY:
        found = _of_memory("gpu_memory", line if _tensor(reading) else first, reading)
        return _with_log(found, read(f"{stderr}\n{text}"))
    if _NCCL.search(message):
        return Failure("kernel", _WITHOUT_NCCL, node=node_in(message), cause=reading.cause)
    return Failure("script", first, cause=reading.cause)


def _tensor(reading: Reading) -> Tensor | None:
    return reading.facts.request.tensor


def _of_memory(kind: Kind, message: str, reading: Reading) -> Failure:
    request, tensor = reading.facts.request, reading.facts.request.tensor
    return Failure(
        kind,
        message,
        node=request.node,
        shape=None if tensor is None else tensor.shape,
        dtype=None if tensor is None else tensor.dtype,
        asked_bytes=request.size_bytes,
        device=request.device,
        cause=reading.cause,
    )


def _with_log(failure: Failure, log: Reading) -> Failure:
    """Add the facts that only the allocator's log has: bytes, and the memory in use."""
    texts = [each.text for each in (*log.evidence, *log.consequences)]
    asked = next((size for text in reversed(texts) if (size := requested_bytes(text))), None)
    return failure._replace(
        node=failure.node or log.facts.request.node,
        asked_bytes=failure.asked_bytes or asked,
        in_use_bytes=None if log.facts.dump is None else log.facts.dump.in_use_bytes,
        cause=log.cause if log.cause in OF_GPU_MEMORY else failure.cause,
    )


def _last_line(text: str) -> str:
    """The last line that is not from TensorFlow's log, which does not show why a script ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not _LOG_LINE.match(line)]
    return lines[-1] if lines else ""


def _short_kernel(name: str) -> str:
    """A C++ kernel's name without its return type, arguments and namespaces."""
    name = name.strip().removeprefix("void ")
    return re.split(r"[<(]", name, maxsplit=1)[0].rpartition("::")[2] or name
