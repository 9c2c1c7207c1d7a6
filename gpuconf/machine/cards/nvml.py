"""Query NVML once for this machine's GPUs; the only module that imports ``pynvml``.

NVML reports free and used memory without creating a CUDA context. Many NVML features are missing on
some machines. WSL2 does not report memory per process, and unified-memory machines (GB10, Jetson)
do not report memory at all. A container hides other users' processes, and old drivers lack some
functions entirely. So every query goes through `query`, which turns a missing answer into None.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

from gpuconf.basics.terminal import printable
from gpuconf.basics.units import MIB
from gpuconf.machine import host_memory
from gpuconf.machine.cards import nvml_timeout
from gpuconf.machine.cards.dmem import with_dmem
from gpuconf.machine.cards.inventory import Gpu, GpuProcess, Inventory, NvmlProblem

T = TypeVar("T")

# The minimum that the binding must have; a `pynvml` without these is another package.
_REQUIRED = ("NVMLError", "nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount")

# NVML's return codes: nvmlReturn_t in nvml.h.
PROBLEMS = {
    4: NvmlProblem(
        "no_permission",
        "this user has no permission to use NVML: the device files under /dev/nvidia* are not "
        "readable",
    ),
    9: NvmlProblem("not_loaded", "the NVIDIA driver is installed but not loaded"),
    12: NvmlProblem(
        "no_library",
        "no NVIDIA driver found (cannot load nvml.dll)"
        if sys.platform == "win32"
        else "no NVIDIA driver found (cannot load libnvidia-ml.so.1); a container needs --gpus all "
        "and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    13: NvmlProblem("too_old", "the NVIDIA driver is too old for the installed nvidia-ml-py"),
    15: NvmlProblem(
        "lost",
        "a GPU has fallen off the bus, and NVML cannot start until the machine is restarted",
    ),
    18: NvmlProblem(
        "mismatch",
        "NVIDIA driver/library version mismatch, usually because the driver was updated without a "
        "reboot",
    ),
}

# nvmlDeviceGetComputeRunningProcesses and similar calls return this if the driver does not know.
_NOT_AVAILABLE = 2**64 - 1

_NOT_SUPPORTED = 3
_EXCLUSIVE_PROCESS = 3  # nvmlComputeMode_t

# The newest version of each function; drivers from before 2022 lack it and have the _v2 version.
_PROCESS_QUERIES = (
    ("compute", "nvmlDeviceGetComputeRunningProcesses"),
    ("compute", "nvmlDeviceGetMPSComputeRunningProcesses"),
    ("graphics", "nvmlDeviceGetGraphicsRunningProcesses"),
)


def read_inventory(*, nvml: ModuleType | None = None, processes: bool = True) -> Inventory:
    """Return the machine's GPUs as NVML sees them now; a failing driver never raises.

    ``nvml`` is the binding to use, by default the installed ``pynvml``.  ``processes=False`` leaves
    ``Gpu.processes`` None and saves two to four driver calls per GPU.

    Sizes are in bytes. ``free_bytes`` is the driver's own figure. ``total_bytes`` is the memory
    minus the driver's reserve, which is close to CUDA's total (the figure to which TensorFlow
    applies its fraction). ``used_bytes`` is the memory that programs hold. A driver older than R510
    does not report the reserve separately; in that case, it is included in both the total and the
    used memory. ``caps`` are the kernel's limits for this process's group.

    If NVML cannot be queried at all or does not answer in time, ``problem`` and ``problem_code``
    say why and ``gpus`` is empty.  A GPU that is lost, or not accessible to this user, stays in the
    list with unknown fields.  Raises UsageError if GPUCONF_NVML_TIMEOUT is not a number of seconds.
    """
    found = ask(nvml, lambda started: read_started(started, processes=processes), Inventory.unknown)
    return with_dmem(found)


def ask(
    nvml: ModuleType | None,
    question: Callable[[ModuleType], T],
    unanswered: Callable[[NvmlProblem], T],
    *,
    environ: Mapping[str, str] = os.environ,
) -> T:
    """Start NVML, return its answer to ``question`` or ``unanswered(why)``, and shut NVML down.

    The wait is limited, because a driver that is resetting a GPU, or whose GPU has fallen off the
    bus, may never answer.  A message is printed if the query takes a long time.
    """
    timeout_s = nvml_timeout.read_timeout_s(environ)
    # Import here: a thread that imports while its caller is inside an import may deadlock.
    binding = _import_binding() if nvml is None else _checked(nvml)
    if isinstance(binding, NvmlProblem):
        return unanswered(binding)
    try:
        return nvml_timeout.call_with_timeout(
            lambda: _ask_between(binding, question, unanswered), timeout_s=timeout_s
        )
    except nvml_timeout.NoAnswerError as error:
        return unanswered(NvmlProblem("no_answer", str(error)))


def _ask_between(
    binding: ModuleType, question: Callable[[ModuleType], T], unanswered: Callable[[NvmlProblem], T]
) -> T:
    problem = _init(binding)
    if problem is not None:
        return unanswered(problem)
    try:
        return question(binding)
    finally:
        query(binding, "nvmlShutdown")


def _import_binding() -> ModuleType | NvmlProblem:
    """Import ``pynvml``; return it, or the reason why it cannot be used."""
    if sys.platform == "darwin":
        return NvmlProblem("no_library", "macOS has no NVIDIA driver")
    try:
        import pynvml
    except ImportError as error:
        why = "nvidia-ml-py, which queries the driver about the GPUs, is not installed"
        if error.name != "pynvml":
            why = f"the installed pynvml cannot be imported ({error}); nvidia-ml-py is needed"
    except Exception as error:  # a package from the Python 2 era fails with a SyntaxError
        kind = type(error).__name__
        why = f"the installed pynvml is broken ({kind}: {error}); nvidia-ml-py is needed"
    else:
        return _checked(pynvml)
    return NvmlProblem("no_binding", why)


def _checked(nvml: ModuleType) -> ModuleType | NvmlProblem:
    missing = [name for name in _REQUIRED if not hasattr(nvml, name)]
    if not missing:
        return nvml
    why = f"the installed pynvml is not nvidia-ml-py: it has no {missing[0]}"
    return NvmlProblem("no_binding", why)


def _init(nvml: ModuleType) -> NvmlProblem | None:
    """Start NVML; return the reason if it does not start, or None."""
    try:
        nvml.nvmlInit()
    except Exception as error:  # NVMLError, or OSError and AttributeError in old bindings
        other = NvmlProblem("other", f"NVML failed to start ({error})")
        code: object = getattr(error, "value", None)
        return PROBLEMS.get(code, other) if isinstance(code, int) else other
    return None


def query(nvml: ModuleType, function: str, *args: Any, default: Any = None) -> Any:
    """Call the binding's ``function``; return ``default`` if it gives no answer.

    All answers pass through here. "Not supported", "no permission" and "GPU is lost" are
    NVMLErrors. A function that the driver lacks raises the unrelated NVMLLibraryMismatchError, one
    that the binding lacks raises AttributeError, and a name that is not UTF-8 raises
    UnicodeDecodeError. These errors must not stop the user's program. Text is made printable,
    because a process chooses its own name.
    """
    try:
        answer = getattr(nvml, function)(*args)
    except Exception:
        return default
    if isinstance(answer, bytes):
        answer = answer.decode(errors="replace")
    return printable(answer) if isinstance(answer, str) else answer


def read_started(nvml: ModuleType, *, processes: bool = True) -> Inventory:
    """Like `read_inventory`, but with a binding that has already started NVML."""
    count = query(nvml, "nvmlDeviceGetCount")
    if count is None:
        why = "NVML starts but does not report the number of GPUs"
        return Inventory.unknown(NvmlProblem("other", why))
    return Inventory(
        gpus=tuple(_read_gpu(nvml, index, processes=processes) for index in range(count)),
        driver_version=query(nvml, "nvmlSystemGetDriverVersion"),
        cuda_version=_read_cuda_version(nvml),
    )


def _read_cuda_version(nvml: ModuleType) -> tuple[int, int] | None:
    """Return the newest CUDA version that the driver supports: NVML's 12040 means (12, 4)."""
    number = query(nvml, "nvmlSystemGetCudaDriverVersion_v2")
    if number is None:
        number = query(nvml, "nvmlSystemGetCudaDriverVersion")
    return (number // 1000, number % 1000 // 10) if number else None


def _read_gpu(nvml: ModuleType, index: int, *, processes: bool) -> Gpu:
    handle = query(nvml, "nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return Gpu(index)
    display = query(nvml, "nvmlDeviceGetDisplayActive", handle)
    mig_mode = query(nvml, "nvmlDeviceGetMigMode", handle)
    compute_mode = query(nvml, "nvmlDeviceGetComputeMode", handle)
    gpu = _describe(nvml, handle, Gpu(index), processes=processes)._replace(
        compute_capability=query(nvml, "nvmlDeviceGetCudaComputeCapability", handle),
        display_active=None if display is None else bool(display),
        pci_bus_id=_read_pci_bus_id(nvml, handle),
        mig_enabled=None if mig_mode is None else bool(mig_mode[0]),
        is_exclusive=None if compute_mode is None else compute_mode == _EXCLUSIVE_PROCESS,
    )
    if not gpu.mig_enabled:
        return _with_host_memory(nvml, handle, gpu)
    return gpu._replace(mig_instances=_read_mig_instances(nvml, handle, gpu, processes=processes))


def _describe(nvml: ModuleType, handle: Any, gpu: Gpu, *, processes: bool) -> Gpu:
    """Fill in the fields of ``gpu`` that a GPU and a MIG instance have in common."""
    # Read the holders first, then the free memory.  A program that ends in between is then listed
    # although its memory is free again.  In the other order its memory would count as used with no
    # holder: a shortage without a cause.  Use the smaller of the free memory before and after, so
    # that memory released in between does not count both as its holder's and as free.
    free_before = _read_memory(nvml, handle)[1] if processes else None
    holders = _read_processes(nvml, handle) if processes else None
    total_bytes, free_bytes, used_bytes = _read_memory(nvml, handle)
    if free_before is not None and free_bytes is not None:
        free_bytes = min(free_before, free_bytes)
    return gpu._replace(
        uuid=query(nvml, "nvmlDeviceGetUUID", handle),
        name=query(nvml, "nvmlDeviceGetName", handle),
        total_bytes=total_bytes,
        free_bytes=free_bytes,
        used_bytes=used_bytes,
        processes=holders,
    )


def _read_memory(nvml: ModuleType, handle: Any) -> tuple[int | None, int | None, int | None]:
    """Return total, free and used bytes as in `read_inventory`; all None if unknown.

    nvmlDeviceGetMemoryInfo includes the driver's reserve in the used memory; its second version
    (R510) reports it separately.  Some platforms report a total of 0 if they do not know it.
    """
    version = getattr(nvml, "nvmlMemory_v2", None)
    info = query(nvml, "nvmlDeviceGetMemoryInfo", handle, version) if version else None
    if info is None:
        info = query(nvml, "nvmlDeviceGetMemoryInfo", handle)
    if info is None or not info.total:
        return None, None, None
    reserved = getattr(info, "reserved", 0)
    total_bytes = info.total - reserved if reserved < info.total else info.total
    return total_bytes, info.free, info.used


def _with_host_memory(nvml: ModuleType, handle: Any, gpu: Gpu) -> Gpu:
    """Return ``gpu`` with the host's figures if the two share memory, as on GB10 and Jetson.

    On these machines, NVML supports no memory query or reports a total of 0; a lost GPU gives other
    errors. Some drivers are reported to answer with the host's total. The free memory that they
    report is then too low, because it does not include the page cache; the same is true of CUDA's
    figure (unslothai/unsloth#10704, Syllo/nvtop#463).
    """
    if gpu.total_bytes is not None:
        other_bytes = abs(gpu.total_bytes - (host_memory.installed_bytes() or 0))
        is_unified = bool(re.search(r"\bGB10\b", gpu.name or "")) or other_bytes < MIB
    else:
        try:
            is_unified = not nvml.nvmlDeviceGetMemoryInfo(handle).total
        except Exception as error:
            is_unified = getattr(error, "value", None) == _NOT_SUPPORTED
    total_bytes, free_bytes = host_memory.total_bytes(), host_memory.available_bytes()
    if not is_unified or total_bytes is None or free_bytes is None:
        return gpu
    return gpu._replace(
        total_bytes=total_bytes, free_bytes=free_bytes, used_bytes=None, is_unified=True
    )


def _read_pci_bus_id(nvml: ModuleType, handle: Any) -> str | None:
    info = query(nvml, "nvmlDeviceGetPciInfo", handle)
    bus_id = getattr(info, "busId", None)
    if isinstance(bus_id, bytes):
        bus_id = bus_id.decode(errors="replace")
    return printable(bus_id) if isinstance(bus_id, str) else None


def _read_mig_instances(
    nvml: ModuleType, handle: Any, card: Gpu, *, processes: bool
) -> tuple[Gpu, ...]:
    """Return the compute instances of a MIG GPU, in NVML's order, which is also nvidia-smi's."""
    instances = []
    for place in range(query(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle, default=0)):
        mig_handle = query(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
        if mig_handle is None:  # no instance at this index
            continue
        ids = (
            query(nvml, "nvmlDeviceGetGpuInstanceId", mig_handle),
            query(nvml, "nvmlDeviceGetComputeInstanceId", mig_handle),
        )
        instance = Gpu(
            card.index,
            compute_capability=card.compute_capability,
            pci_bus_id=card.pci_bus_id,
            mig_ids=None if None in ids else ids,
        )
        instances.append(_describe(nvml, mig_handle, instance, processes=processes))
    return tuple(instances)


def _read_processes(nvml: ModuleType, handle: Any) -> tuple[GpuProcess, ...] | None:
    """Return the processes using memory on the device, each once; None if the driver does not say.

    A program that both computes and draws appears in two lists, and counts as a compute program.
    """
    found: dict[int, GpuProcess] = {}
    known = False
    for kind, function in _PROCESS_QUERIES:
        listed = query(nvml, function, handle)
        if listed is None:
            listed = query(nvml, f"{function}_v2", handle)
        known = known or listed is not None
        for entry in listed or ():
            earlier = found.get(entry.pid)
            used_bytes = None if entry.usedGpuMemory == _NOT_AVAILABLE else entry.usedGpuMemory
            if earlier is None:
                name = query(nvml, "nvmlSystemGetProcessName", entry.pid)
                found[entry.pid] = GpuProcess(entry.pid, used_bytes, name or None, kind)
            elif earlier.used_bytes is None:
                found[entry.pid] = earlier._replace(used_bytes=used_bytes)
    return tuple(found.values()) if known else None
