"""The causes of failures, their severity, and which cause explains which."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from gpuconf.basics.json_shape import FieldRule

Severity = Literal["failure", "silent-cpu-fallback", "warning-only", "not-gpu"]


SEVERITIES: dict[Severity, str] = {
    "failure": "the run failed",
    "silent-cpu-fallback": "the run continues on the CPU",
    "warning-only": "the run went on",
    "not-gpu": "not a GPU problem",
}


class Cause(NamedTuple):
    """A cause: its title for people, and the causes that are only its consequences.

    ``severity`` applies if this cause ended the run.
    """

    title: str
    explains: frozenset[str] = frozenset()
    severity: Severity = "failure"


NOT_GPU = "not-a-gpu-problem"
# Prefix of the command that shows a cause's page.  Change it here once the site has an address.
PAGE_OF_CAUSE = "gpuconf docs causes/"
# Causes that are about GPU memory.
OF_GPU_MEMORY = frozenset(
    {
        *("oom-device-tensor", "oom-device-startup", "whole-array-copied", "fragmentation"),
        *("cudnn-handle-alloc", "cublas-alloc", "torch-oom", "jax-oom"),
    }
)


def _of(*causes: str) -> frozenset[str]:
    return frozenset(causes)


_LIBRARIES = ("cudnn-handle-alloc", "cudnn-internal", "cublas-alloc")
_MEMORY = ("oom-device-tensor", "oom-device-startup", "whole-array-copied", "fragmentation")

# The order breaks ties: of two causes on the same line of a log, the earlier one here is named.
CAUSES: dict[str, Cause] = {
    "late-config": Cause(
        "a setting came after TensorFlow had made its devices",
        _of("growth-mismatch", *_LIBRARIES, *_MEMORY),
    ),
    "growth-mismatch": Cause("memory growth is not the same on all GPUs"),
    "driver-mismatch": Cause(
        "driver, CUDA and cuDNN do not match",
        _of(
            "missing-libs",
            "no-device",
            "compute-capability",
            "illegal-address",
            "xla-toolchain",
            *_LIBRARIES,
        ),
    ),
    "no-device": Cause(
        "no GPU is available to the process", _of("missing-libs", "gpu-only-operation")
    ),
    "missing-libs": Cause(
        "CUDA libraries are missing",
        _of("cudnn-internal", "cublas-alloc", "xla-toolchain", "gpu-only-operation"),
    ),
    "compute-capability": Cause(
        "this build does not know the card's compute capability",
        _of("no-device", "illegal-address", "xla-toolchain", *_LIBRARIES),
    ),
    "xla-toolchain": Cause("XLA lacks CUDA's compiler files", _of("cudnn-internal")),
    "illegal-address": Cause(
        "a kernel or the card itself failed", _of("no-device", "oom-device-tensor", *_LIBRARIES)
    ),
    "oom-device-startup": Cause(
        "the card was full when the process started",
        _of("no-device", "oom-device-tensor", "whole-array-copied", *_LIBRARIES),
    ),
    "whole-array-copied": Cause("a whole array was copied to the card", _of("oom-device-tensor")),
    "fragmentation": Cause("GPU memory is fragmented", _of("oom-device-tensor", *_LIBRARIES)),
    "oom-device-tensor": Cause("no room on the card for a tensor", _of(*_LIBRARIES)),
    "cudnn-handle-alloc": Cause("no memory for cuDNN", _of("cudnn-internal")),
    "cublas-alloc": Cause("no memory for cuBLAS", _of("cudnn-internal")),
    "cudnn-internal": Cause("cuDNN does not work"),
    "torch-oom": Cause("PyTorch found no memory on the card", _of("oom-device-startup")),
    "jax-oom": Cause(
        "JAX found no memory on the card", _of("oom-device-tensor", "oom-device-startup")
    ),
    "host-oom": Cause("the host ran out of RAM"),
    "disk-full": Cause("a disk of the host is full", severity="not-gpu"),
    "gpu-only-operation": Cause("an operation runs on real GPUs only"),
    NOT_GPU: Cause("no known GPU problem"),
}
CauseId = Annotated[str, FieldRule(enum=tuple(CAUSES))]
