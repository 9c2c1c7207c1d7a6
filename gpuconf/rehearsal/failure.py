"""Why a program failed, read from its error and from the last of its stderr.  Pure.

The wordings are those of TensorFlow 2.15 to 2.21, seen on the simulated card or listed in
TensorFlow's source; tests/rehearsal has them whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from gpuconf.messages.facts.tensor import node_in, tensor_bytes
from gpuconf.units import parse_size

Kind = Literal["gpu_memory", "host_memory", "kernel", "bridge", "refused", "script"]

_OOM_TENSOR = re.compile(
    r"OOM when allocating tensor with shape ?(?P<shape>\[[\d, ]*\]) and type (?P<type>\w+)"
    r"(?: on (?P<device>\S+))?(?: by allocator (?P<allocator>\S+))?"
)
_BFC_SAYS = re.compile(
    r"Allocator \((?P<allocator>\w+)\) ran out of memory trying to allocate .*?"
    r"\(rounded to (?P<bytes>\d+)\)\s*requested by op (?P<op>\S+)"
)
# Bytes; since TensorFlow 2.21 as "881.17MiB".
_BFC_IN_USE = re.compile(
    r"^InUse:\s+(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGT]?i?B)?\s*$", re.MULTILINE
)
_XLA_BYTES = re.compile(r"Out of memory while trying to allocate (?P<bytes>\d+) bytes")
_KERNEL = re.compile(r"gpuconf simulated card: the program launched the GPU kernel\n\s*(.+)")
_ON_THE_CARD = (
    "Dst tensor is not initialized",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "Out of memory while trying to allocate",
    "RESOURCE_EXHAUSTED: Out of memory",
)
_CANNOT_RUN = (
    "DNN library initialization failed",
    "DNN library is not found",
    "No algorithm worked",
    "simulated card",
)
_BRIDGE_REFUSES = re.compile(r"a simulated card cannot compute (\w+)")
# What TensorFlow's CPU kernels, which compute here, cannot: "The Conv2D op currently only supports
# the NHWC tensor format on the CPU", "Default MaxPoolingOp only supports NHWC on device type CPU".
_CPU_REFUSES = re.compile(
    r"(\w+)(?: [oO]p)?(?: is)?(?: currently)? only supports? [^\n]*?"
    r"(?:(?:on|for) (?:the |device type )?CPU\b|\bNHWC\b)"
)
_NCCL = re.compile(r"\bNCCL\b|\bNccl|CollectiveReduce|CollectiveBcast|CollectiveAllReduce")
_WITHOUT_NCCL = (
    "simulated cards have no NCCL; MirroredStrategy("
    "cross_device_ops=tf.distribute.HierarchicalCopyAllReduce()) does without"
)
_BRIDGE_LOAD = re.compile(
    r"[^\n]*(?:libgpuconf_bridge\.so: undefined symbol|kernel bridge of the simulated card was "
    r"built for TensorFlow)[^\n]*"
)
# A line of TensorFlow's log: "I0000 00:00:17…", "2026-11-21 12:00:00.1: W tensorflow/…".
_LOG_LINE = re.compile(r"[IWEF]\d{4} \d\d:|\d{4}-\d\d-\d\d [\d:.]+: [IWEF] |WARNING: All log mess")


class Failure(NamedTuple):
    """What a program failed of.

    ``node`` is the operation's full name, as TensorFlow gives it; ``asked_bytes`` what it asked
    for; ``in_use_bytes`` what the allocator had given out then, which its log tells unless
    TF_CPP_MIN_LOG_LEVEL hides that; ``message`` one line for people.  Unknown is None.
    """

    kind: Kind
    message: str
    node: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    asked_bytes: int | None = None
    device: str | None = None
    in_use_bytes: int | None = None

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return self._asdict()


def failure_of(error: Mapping[str, Any] | None, stderr: str) -> Failure:
    """What ``error`` (type and message, as the agent noted them) and the end of stderr mean.

    Without an error, the program was stopped from outside or by its C++ half, and stderr has to
    tell.
    """
    kernel = _KERNEL.search(stderr)
    if kernel is not None:
        name = _short_kernel(kernel[1])
        return Failure("kernel", f"the program launched the GPU kernel {name}", node=name)
    unloaded = _BRIDGE_LOAD.search(f"{(error or {}).get('message', '')}\n{stderr}")
    if unloaded is not None:
        return Failure("bridge", unloaded[0].strip().removeprefix("gpuconf: error: "))
    if error is None:
        return Failure("script", _last_line(stderr))
    kind, text = str(error.get("type", "")), str(error.get("message", ""))
    if kind in ("profile", "dependency"):
        return Failure("refused", text)
    return _of_error(kind, text, stderr)


def _of_error(kind: str, text: str, stderr: str) -> Failure:
    first = f"{kind}: {_telling_line(text)}"
    if kind == "MemoryError" or "MemoryError" in text or "by allocator cpu" in text:
        return Failure("host_memory", first)
    tensor = _OOM_TENSOR.search(text)
    if tensor is not None:
        return _of_tensor(tensor, text, stderr)
    if any(sign in text for sign in _ON_THE_CARD):
        return _of_words(first, text, stderr)
    return _of_the_simulation(first, text) or Failure("script", first)


def _of_the_simulation(first: str, text: str) -> Failure | None:
    """What a real card could do, and a simulated one cannot."""
    refused = _BRIDGE_REFUSES.search(text) or _CPU_REFUSES.search(text)
    if refused is not None:
        return Failure("kernel", f"{refused[1]}: {_telling_line(text)}", node=refused[1])
    if _NCCL.search(text):
        return Failure("kernel", _WITHOUT_NCCL, node=node_in(text))
    if any(sign in text for sign in _CANNOT_RUN):
        return Failure("kernel", first, node=node_in(text))
    return None


def _of_tensor(found: re.Match[str], text: str, stderr: str) -> Failure:
    allocator = found["allocator"] or ""
    if allocator and not allocator.startswith(("GPU_", "bfc_cpu_allocator_for_gpu")):
        kind: Kind = "host_memory"  # gpu_host_bfc too: that is pinned memory of the host
    else:
        kind = "gpu_memory"
    shape = tuple(int(size) for size in re.findall(r"\d+", found["shape"]))
    dtype = found["type"]
    node = node_in(text) or _said_by_allocator(stderr).get("op")
    return Failure(
        kind,
        found[0],
        node=node,
        shape=shape,
        dtype=dtype,
        asked_bytes=tensor_bytes(shape, dtype),
        device=_device(found["device"]),
        in_use_bytes=_in_use(stderr) if kind == "gpu_memory" else None,
    )


def _of_words(first: str, text: str, stderr: str) -> Failure:
    """An error that tells no shape; the allocator's own line in the log tells bytes."""
    said = _said_by_allocator(stderr)
    xla = _XLA_BYTES.search(text)
    asked = int(xla["bytes"]) if xla else said.get("bytes")
    devices = re.findall(r"/device:(GPU:\d+)", text)
    return Failure(
        "gpu_memory",
        first,
        node=node_in(text) or said.get("op"),
        asked_bytes=asked,
        device=devices[-1] if devices else None,
        in_use_bytes=_in_use(stderr),
    )


def _said_by_allocator(stderr: str) -> dict[str, Any]:
    """The last time that a GPU's allocator said in the log what it could not give."""
    found = [match for match in _BFC_SAYS.finditer(stderr) if _is_gpu(match["allocator"])]
    return {"op": found[-1]["op"], "bytes": int(found[-1]["bytes"])} if found else {}


def _in_use(stderr: str) -> int | None:
    """What was given out when a GPU's allocator last told its state."""
    if not _said_by_allocator(stderr):
        return None
    found = _BFC_IN_USE.findall(stderr)
    if not found:
        return None
    number, unit = found[-1]
    return parse_size(f"{number}{unit or 'B'}")


def _is_gpu(allocator: str) -> bool:
    return allocator.startswith(("GPU_", "bfc_cpu_allocator_for_gpu"))


def _device(name: str | None) -> str | None:
    return None if name is None else name.rpartition("device:")[2]


def _telling_line(text: str) -> str:
    """The line of a message that says what went wrong, without TensorFlow's brackets."""
    lines = [re.sub(r"\{\{[^}]*\}\}\s*", "", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("File ")]
    signs = (*_ON_THE_CARD, *_CANNOT_RUN, "MemoryError", "OOM when", "only support")
    telling = [line for line in lines if any(sign in line for sign in signs)]
    told = (telling or lines or [""])[0]
    return f"{told} …" if len(lines) > 1 and not telling else told


def _last_line(text: str) -> str:
    """The last line that is not of TensorFlow's log, which says nothing of why a script ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not _LOG_LINE.match(line)]
    return lines[-1] if lines else ""


def _short_kernel(name: str) -> str:
    """A C++ kernel's name without its return type, arguments and namespaces."""
    name = name.strip().removeprefix("void ")
    return re.split(r"[<(]", name, maxsplit=1)[0].rpartition("::")[2] or name
