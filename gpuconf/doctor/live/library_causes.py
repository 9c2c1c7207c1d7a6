"""Why CUDA, cuDNN, cuBLAS or XLA refused: from their own words.  Pure.

The wordings are those of the strings in TensorFlow 2.15's and 2.21's libraries, of runs on the
simulated card, and of people's logs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from gpuconf.doctor.live import fixes
from gpuconf.doctor.live.evidence import Cause, Evidence, first_line
from gpuconf.doctor.live.record import ProbedCard
from gpuconf.units import GIB, mib

_CUDNN_VERSIONS = re.compile(
    r"Loaded runtime CuDNN library: (\S+) but source was compiled with: (\d[\d.]*\d)"
)
_CUDNN_HANDLE = re.compile(
    r"[Cc]ould not create cudnn handle: (\S+)|cudnn library could not create a handle"
    r"|compilation cudnn handle failed"
)
_CUDNN = re.compile(
    r"DNN library (?:is not found|initialization failed)|No DNN (?:in|support|found|for)"
    r"|Failed to get convolution algorithm|No algorithm worked|CUDNN_STATUS_\w+"
)
_CUBLAS = re.compile(
    r"failed to create cublas handle: ([^\n]+)|CUBLAS_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)"
    r"|StreamExecutor without BLAS support|Failed to create cuBlas|GEMM launch failed"
)
_TOOLCHAIN = re.compile(
    r"libdevice not found[^\n]*|No PTX compilation provider[^\n]*|Failed to launch ptxas"
    r"|Can't find ptxas binary"
)
_WRONG_KERNELS = re.compile(
    r"no kernel image is available|CUDA_ERROR_NO_BINARY_FOR_GPU|CUDA_ERROR_INVALID_PTX"
    r"|CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
)
_OLD_DRIVER = re.compile(
    r"driver version is insufficient|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
    r"|CUDA_ERROR_COMPAT_NOT_SUPPORTED\w*|forward compatibility was attempted"
)
_BUSY = re.compile(r"CUDA_ERROR_DEVICE_UNAVAILABLE|devices? (?:\(s\) )?(?:is|are) busy or unavail")
_BROKEN = re.compile(
    r"CUDA_ERROR_ILLEGAL_ADDRESS|illegal memory access|CUDA_ERROR_ECC_UNCORRECTABLE"
    r"|uncorrectable ECC|CUDA_ERROR_LAUNCH_FAILED|unspecified launch failure"
    r"|CUDA_ERROR_MISALIGNED_ADDRESS|CUDA_ERROR_HARDWARE_STACK_ERROR|fallen off the bus"
)
_MEMORY = re.compile(
    r"OOM when allocating|Dst tensor is not initialized|out of memory|CUDA_ERROR_OUT_OF_MEMORY"
    r"|Failed to allocate|_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED",
    re.IGNORECASE,
)


def cause_by_words(evidence: Evidence) -> Cause | None:
    """By the exception's own text; by the log only where that text points there or tells nothing.

    A log has lines that came to nothing, such as refused allocations that were tried again.
    """
    message, log = evidence.error.message, evidence.log[-64 * 1024 :]
    for pattern, explain in _RULES:
        found = pattern.search(message)
        if found is None:
            continue
        if pattern is _CUDNN:  # "Look at the errors above for more details."
            versions, handle = _CUDNN_VERSIONS.search(log), _CUDNN_HANDLE.search(log)
            if versions is not None:
                return _cudnn_versions(evidence, versions)
            if handle is not None:
                return _cudnn_handle(evidence, handle)
        return explain(evidence, found)
    for pattern, explain in _RULES:
        found = pattern.search(log)
        if found is not None:
            return explain(evidence, found)
    return None


def _cudnn_versions(_evidence: Evidence, found: re.Match[str]) -> Cause:
    return Cause(
        f"cuDNN {found[1]} was loaded, and this TensorFlow was built with {found[2]}",
        f"unset LD_LIBRARY_PATH; {fixes.WITH_LIBRARIES}",
        ("cuDNN's major version must be the same, its minor version equal or higher", found[0]),
    )


def _cudnn_handle(evidence: Evidence, found: re.Match[str]) -> Cause:
    status = (found[1] or "").rstrip(".")
    if "ALLOC" in status or _is_tight(evidence) or _MEMORY.search(evidence.error.message):
        return Cause(
            f"no memory is left for cuDNN's handle{f' ({status})' if status else ''}",
            fixes.leave_room_for_handles(evidence.record, evidence.card),
            (*fixes.memory_lines(evidence.card), _BESIDE),
        )
    return Cause(
        f"cuDNN does not start{f' ({status})' if status else ''}",
        f"unset LD_LIBRARY_PATH; {fixes.WITH_LIBRARIES}",
        (first_line(evidence.error), "a full card is the other cause of this"),
    )


_BESIDE = "cuDNN's and cuBLAS's handles and workspaces come on top of TensorFlow's limit"


_SAYS_SO = "a profile with `at_least`, such as shared-desktop, says so before TensorFlow starts"


def _cudnn(evidence: Evidence, found: re.Match[str]) -> Cause:
    if "ALLOC_FAILED" in found[0] or _is_tight(evidence):
        return Cause(
            f"cuDNN finds no memory for the {evidence.step} ({found[0]})",
            fixes.leave_room_for_handles(evidence.record, evidence.card),
            (*fixes.memory_lines(evidence.card), _BESIDE),
        )
    return Cause(
        f"cuDNN does not work ({found[0]})",
        f"unset LD_LIBRARY_PATH; {fixes.WITH_LIBRARIES}",
        (first_line(evidence.error),),
    )


def _cublas(evidence: Evidence, found: re.Match[str]) -> Cause:
    return Cause(
        "cuBLAS's handle cannot be made, most often for lack of memory",
        fixes.leave_room_for_handles(evidence.record, evidence.card),
        (found[0], *fixes.memory_lines(evidence.card), _BESIDE),
    )


def _toolchain(_evidence: Evidence, found: re.Match[str]) -> Cause:
    return Cause(
        "XLA, with which Keras compiles on a GPU, lacks CUDA's compiler files",
        f"{fixes.WITH_LIBRARIES}  # or export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda",
        (found[0],),
    )


def _wrong_kernels(evidence: Evidence, found: re.Match[str]) -> Cause:
    version = evidence.record.fact("tensorflow") or "of this environment"
    return Cause(
        f"TensorFlow {version} has no code for this card's compute capability, nor can the driver "
        "translate it",
        f"pip install --upgrade 'tensorflow[and-cuda]'; {fixes.AGAIN}",
        (found[0], "a new card needs a newer TensorFlow and driver; a very old one an older"),
    )


def _old_driver(_evidence: Evidence, found: re.Match[str]) -> Cause:
    return Cause(
        "the NVIDIA driver does not go with the CUDA libraries",
        "nvidia-smi --query-gpu=driver_version --format=csv  # update the driver, restart",
        (found[0],),
    )


def _busy(_evidence: Evidence, found: re.Match[str]) -> Cause:
    return Cause(
        "the card takes no more processes: it is in exclusive mode, or in trouble",
        "nvidia-smi -q -d COMPUTE; sudo nvidia-smi --compute-mode=DEFAULT",
        (found[0],),
    )


def _broken(evidence: Evidence, found: re.Match[str]) -> Cause:
    return Cause(
        f"the card failed in the {evidence.step} ({found[0]})",
        fixes.SEE_KERNEL_LOG,
        (first_line(evidence.error), "nvidia-smi -q -d ECC,PAGE_RETIREMENT tells of bad memory"),
    )


def _memory(evidence: Evidence, _found: re.Match[str]) -> Cause:
    card, said = evidence.card, first_line(evidence.error)
    lines = (said, *fixes.memory_lines(card))
    if evidence.step in ("start", "context"):
        free = "" if card is None or card.free_bytes is None else f": {mib(card.free_bytes)} free"
        return Cause(
            f"no CUDA context can be made, the card is full{free}",
            fixes.free_the_card(card, evidence.others),
            (*lines, "a context takes some 300 to 600 MB before the first tensor", _SAYS_SO),
        )
    if _limit_is_the_wall(card):
        return Cause(
            f"out of memory in the {evidence.step}: the profile allows too little",
            f"gpuconf plan {shlex.quote(evidence.record.fact('profile') or '')}  "
            "# shows which rule makes the limit: raise that one",
            lines,
        )
    return Cause(
        f"out of memory in the {evidence.step}, which needs less than 100 MB: the card is full",
        fixes.free_the_card(card, evidence.others),
        lines,
    )


def _limit_is_the_wall(card: ProbedCard | None) -> bool:
    """Whether the limit is far below what was free."""
    if card is None or card.limit_bytes is None or card.free_bytes is None:
        return False
    return card.limit_bytes < card.free_bytes / 2


def _is_tight(evidence: Evidence) -> bool:
    """Whether less than a gibibyte was left on the card when the step began."""
    steps = [step for step in evidence.record.steps if step.step == evidence.step and step.before]
    free = [memory.free_bytes for step in steps for memory in step.before]
    return any(size is not None and size < GIB for size in free)


_RULES: tuple[tuple[re.Pattern[str], Callable[[Evidence, re.Match[str]], Cause]], ...] = (
    (_CUDNN_VERSIONS, _cudnn_versions),
    (_OLD_DRIVER, _old_driver),
    (_WRONG_KERNELS, _wrong_kernels),
    (_BUSY, _busy),
    (_BROKEN, _broken),
    (_TOOLCHAIN, _toolchain),
    (_CUDNN_HANDLE, _cudnn_handle),
    (_CUBLAS, _cublas),
    (_CUDNN, _cudnn),
    (_MEMORY, _memory),
)
