"""A cause found by `gpuconf.support.failures` -> its meaning on this card, and the fix.  Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from gpuconf.basics.units import GIB, sized
from gpuconf.commands.doctor.live import fixes
from gpuconf.commands.doctor.live.failed_step import FailedStep, Reason, first_line
from gpuconf.commands.doctor.measured import ProbedCard
from gpuconf.support.failures import Reading
from gpuconf.support.failures.causes import CAUSES, NOT_GPU

_BESIDE = "cuDNN's and cuBLAS's handles and workspaces come on top of the limit"
_SAYS_SO = "a profile with `at_least`, such as shared-desktop, says so at once"
_NOT_NEEDED = ("libnvinfer", "librocm", "libamdhip")  # TensorFlow often misses these at startup
_CUINIT_FIXES = {
    "CUDA_ERROR_UNKNOWN": "sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm  "
    "# as after a suspend; if that does not help, restart",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "sudo reboot  # the driver was updated without it",
    "CUDA_ERROR_SYSTEM_NOT_READY": "sudo systemctl restart nvidia-fabricmanager",
}


def reason_by_cause(failed: FailedStep, reading: Reading) -> Reason | None:
    """The meaning of the cause on this card; None if no cause was found."""
    if reading.cause == NOT_GPU:
        return None
    made = _BY_CAUSE.get(reading.cause, _other)(failed, reading)
    return made._replace(cause=reading.cause)


def _cudnn(failed: FailedStep, reading: Reading) -> Reason:
    status = _detail(reading, "status")
    shown = f" ({status})" if status else ""
    if reading.cause == "cudnn-handle-alloc" or _is_tight(failed):
        return Reason(
            f"no memory is left for cuDNN in the {failed.step}{shown}",
            fixes.leave_room_for_handles(failed.record, failed.card),
            (*fixes.memory_lines(failed.card), _BESIDE),
        )
    return Reason(
        f"cuDNN does not work{shown}",
        f"unset LD_LIBRARY_PATH; {failed.record.framework.install}",
        (*_said(failed, reading), "a full card is the other cause of this"),
    )


def _cublas(failed: FailedStep, reading: Reading) -> Reason:
    return Reason(
        "cuBLAS's handle cannot be made, most often for lack of memory",
        fixes.leave_room_for_handles(failed.record, failed.card),
        (*_shown(reading), *fixes.memory_lines(failed.card), _BESIDE),
    )


def _toolchain(failed: FailedStep, reading: Reading) -> Reason:
    return Reason(
        "XLA, with which Keras compiles on a GPU, lacks CUDA's compiler files",
        f"{failed.record.framework.install}  # or "
        "export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda",
        _shown(reading),
    )


def _capability(failed: FailedStep, reading: Reading) -> Reason:
    """TensorFlow ignores the card, or has no code for it."""
    card, details = reading.facts.card, reading.facts.details
    if "multiprocessors" in details:
        count = details["multiprocessors"]
        return Reason(
            f"TensorFlow ignores a GPU of {count} multiprocessors, which is fewer than it asks for",
            f"export TF_MIN_GPU_MULTIPROCESSOR_COUNT={count}",
            _shown(reading),
        )
    if "minimum_capability" in details and card is not None:
        return Reason(
            f"TensorFlow ignores a GPU of compute capability {card.compute_capability}: it needs "
            f"{details['minimum_capability']}",
            "export GPUCONF_PROFILE=cpu-only  # an older TensorFlow may still take the card",
            _shown(reading),
        )
    framework = failed.record.framework
    version = failed.record.fact("version") or "of this environment"
    return Reason(
        f"{framework.title} {version} has no code for this card's compute capability, nor can the "
        "driver translate it",
        f"{framework.install.replace('install', 'install --upgrade', 1)}; {fixes.AGAIN}",
        (
            *_shown(reading),
            f"a new card needs a newer {framework.title}, a very old one an older",
        ),
    )


def _versions(failed: FailedStep, reading: Reading) -> Reason:
    loaded, built = _detail(reading, "loaded_cudnn"), _detail(reading, "compiled_cudnn")
    if loaded and built:
        rule = "cuDNN's major version must be the same, its minor version equal or higher"
        return Reason(
            f"cuDNN {loaded} was loaded, and this {failed.record.framework.title} was built with "
            f"{built}",
            f"unset LD_LIBRARY_PATH; {failed.record.framework.install}",
            (rule, *_shown(reading)),
        )
    return Reason(
        "the NVIDIA driver does not go with the CUDA libraries",
        _CUINIT_FIXES.get(_detail(reading, "status"))
        or "nvidia-smi --query-gpu=driver_version --format=csv  # update the driver, restart",
        _shown(reading),
    )


def _no_device(failed: FailedStep, reading: Reading) -> Reason:
    status = _detail(reading, "status")
    if status == "CUDA_ERROR_DEVICE_UNAVAILABLE" or "device_refused" in reading.facts.details:
        return Reason(
            "the card takes no more processes: it is in exclusive mode, or in trouble",
            "nvidia-smi -q -d COMPUTE; sudo nvidia-smi --compute-mode=DEFAULT",
            _shown(reading),
        )
    if "missing_libraries" in reading.facts.details:
        return _missing(failed, reading)
    return Reason(
        f"CUDA does not start{f': {status}' if status else ''}",
        _CUINIT_FIXES.get(status, "nvidia-smi; gpuconf doctor driver"),
        _shown(reading),
    )


def _missing(failed: FailedStep, reading: Reading) -> Reason:
    listed: Any = reading.facts.details.get("missing_libraries", ["a CUDA library"])
    names = [name for name in listed if not name.startswith(_NOT_NEEDED)] or listed
    if any(name.startswith("libcuda.so") for name in names):
        return Reason(
            "the driver's CUDA library (libcuda.so.1) cannot be loaded",
            "ldconfig -p | grep libcuda  # in a container: docker run --gpus all "
            "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE",
            _shown(reading),
        )
    framework = failed.record.framework
    summary = f"{framework.title} cannot load {', '.join(names)}"
    return Reason(summary, framework.install, _shown(reading))


def _broken(failed: FailedStep, reading: Reading) -> Reason:
    status = _detail(reading, "status")
    return Reason(
        f"the card failed in the {failed.step}{f' ({status})' if status else ''}",
        fixes.SEE_KERNEL_LOG,
        (*_shown(reading), "nvidia-smi -q -d ECC,PAGE_RETIREMENT shows faults of its memory"),
    )


def _memory(failed: FailedStep, reading: Reading) -> Reason:
    card = failed.card
    lines = (*_said(failed, reading), *fixes.memory_lines(card))
    if failed.step in ("start", "context"):
        free = "" if card is None or card.free_bytes is None else f": {sized(card.free_bytes)} free"
        return Reason(
            f"no CUDA context can be made, the card is full{free}",
            fixes.free_the_card(card, failed.others),
            (*lines, "a context takes some 300 to 600 MB before the first tensor", _SAYS_SO),
        )
    if _limit_is_the_wall(card):
        return Reason(
            f"out of memory in the {failed.step}: the profile allows too little",
            f"gpuconf plan {shlex.quote(failed.record.fact('profile') or '')}  "
            "# shows which rule makes the limit: raise that one",
            lines,
        )
    return Reason(
        f"out of memory in the {failed.step}, which needs less than 100 MB: the card is full",
        fixes.free_the_card(card, failed.others),
        lines,
    )


def _host_memory(failed: FailedStep, reading: Reading) -> Reason:
    return Reason(
        f"the host ran out of RAM in the {failed.step}",
        "free -h; ps aux --sort=-rss | head",
        _shown(reading),
    )


def _full_disk(failed: FailedStep, reading: Reading) -> Reason:
    folder = _detail(reading, "full_folder")
    return Reason(
        f"a disk of the host was full in the {failed.step}{f': {folder}' if folder else ''}",
        f"df -h{f' {shlex.quote(folder)}' if folder else ''}  # or export TMPDIR=/data/tmp",
        _shown(reading),
    )


def _other(failed: FailedStep, reading: Reading) -> Reason:
    summary = f"the {failed.step} step failed: {CAUSES[reading.cause].title}"
    return Reason(summary, fixes.by_hand(failed.record, failed.only), _shown(reading))


def _detail(reading: Reading, name: str) -> str:
    return str(reading.facts.details.get(name, ""))


def _said(failed: FailedStep, reading: Reading) -> tuple[str, ...]:
    """The exception in one line, otherwise the lines of the log."""
    return (first_line(failed.error),) if failed.error.kind else _shown(reading)


def _shown(reading: Reading) -> tuple[str, ...]:
    """The lines that show the cause."""
    return tuple(line.text[:300] for line in reading.evidence[:4])


def _limit_is_the_wall(card: ProbedCard | None) -> bool:
    """Whether the limit is far below the memory that was free."""
    if card is None or card.limit_bytes is None or card.free_bytes is None:
        return False
    return card.limit_bytes < card.free_bytes / 2


def _is_tight(failed: FailedStep) -> bool:
    """Whether less than 1 GiB was free on the card when the step began."""
    steps = [step for step in failed.record.steps if step.step == failed.step and step.before]
    free = [memory.free_bytes for step in steps for memory in step.before]
    return any(size is not None and size < GIB for size in free)


_BY_CAUSE: dict[str, Callable[[FailedStep, Reading], Reason]] = {
    "cudnn-handle-alloc": _cudnn,
    "cudnn-internal": _cudnn,
    "cublas-alloc": _cublas,
    "xla-toolchain": _toolchain,
    "compute-capability": _capability,
    "driver-mismatch": _versions,
    "no-device": _no_device,
    "missing-libs": _missing,
    "illegal-address": _broken,
    "host-oom": _host_memory,
    "disk-full": _full_disk,
    "torch-oom": _memory,
    "jax-oom": _memory,
    "oom-device-startup": _memory,
    "oom-device-tensor": _memory,
    "whole-array-copied": _memory,
    "fragmentation": _memory,
}
