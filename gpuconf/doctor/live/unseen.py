"""A GPU that NVML has and TensorFlow does not list: why, from what TensorFlow wrote.  Pure."""

from __future__ import annotations

import re

from gpuconf.doctor.live import fixes
from gpuconf.doctor.live.evidence import Cause
from gpuconf.doctor.live.record import Record

# Told at every start; of TensorRT, which nobody needs to see a GPU.
_NOT_NEEDED = ("libnvinfer", "librocm", "libamdhip")
_NOT_LOADED = re.compile(r"Could not load dynamic library '([^']+)'; dlerror: ([^\n]*)")
_CUINIT = re.compile(r"failed call to cuInit:[^\n]*?(CUDA_ERROR_\w+)")
_TOO_OLD = re.compile(
    r"Ignoring visible gpu device [^\n]*with Cuda compute capability ([\d.]+\d)\. "
    r"The minimum required Cuda capability is ([\d.]+\d)"
)
_TOO_SMALL = re.compile(
    r"Ignoring visible gpu device [^\n]*with core count: (\d+)\. "
    r"The minimum required count is (\d+)"
)
_CUINIT_FIXES = {
    "CUDA_ERROR_UNKNOWN": "sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm  "
    "# as after a suspend; if that does not help, restart",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "sudo reboot  # the driver was updated without it",
    "CUDA_ERROR_SYSTEM_NOT_READY": "sudo systemctl restart nvidia-fabricmanager",
    "CUDA_ERROR_OUT_OF_MEMORY": "nvidia-smi  # then stop what holds the cards",
}


def cause_of_unseen(record: Record, log: str) -> Cause:
    """Why TensorFlow lists none, or fewer, of the cards in ``record``."""
    if record.fact("is_cuda_build") == "False":
        return Cause(
            "this TensorFlow was built without CUDA",
            f"pip uninstall -y tensorflow-cpu; {fixes.WITH_LIBRARIES}",
        )
    missing = missing_libraries(log)
    if missing:
        return _missing(missing)
    return _refused_by_driver(log) or _ignored(log) or _unexplained(record)


def missing_libraries(log: str) -> dict[str, str]:
    """The libraries that TensorFlow could not load, and what the loader said, in order."""
    found = {name: " ".join(said.split()) for name, said in _NOT_LOADED.findall(log)}
    return {name: said for name, said in found.items() if not name.startswith(_NOT_NEEDED)}


def _missing(missing: dict[str, str]) -> Cause:
    detail = tuple(f"{name}: {said}" for name, said in missing.items())
    if any("libcuda.so" in line for line in detail):
        return Cause(
            "the driver's CUDA library (libcuda.so.1) cannot be loaded",
            "ldconfig -p | grep libcuda  # in a container: docker run --gpus all "
            "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE",
            detail,
        )
    names = ", ".join(missing)
    return Cause(f"TensorFlow cannot load {names}", fixes.WITH_LIBRARIES, detail)


def _refused_by_driver(log: str) -> Cause | None:
    found = _CUINIT.search(log)
    if found is None:
        return None
    return Cause(
        f"CUDA does not start: {found[1]}",
        _CUINIT_FIXES.get(found[1], "nvidia-smi; gpuconf doctor driver"),
        (found[0],),
    )


def _ignored(log: str) -> Cause | None:
    old, small = _TOO_OLD.search(log), _TOO_SMALL.search(log)
    if old is not None:
        return Cause(
            f"TensorFlow ignores a GPU of compute capability {old[1]}: it needs {old[2]}",
            "export GPUCONF_PROFILE=cpu-only  # an older TensorFlow may still take the card",
            (old[0],),
        )
    if small is not None:
        return Cause(
            f"TensorFlow ignores a GPU of {small[1]} multiprocessors: it asks for {small[2]}",
            f"export TF_MIN_GPU_MULTIPROCESSOR_COUNT={small[1]}",
            (small[0],),
        )
    return None


def _unexplained(record: Record) -> Cause:
    return Cause(
        "TensorFlow lists too few GPUs, and does not say why",
        fixes.by_hand(record),
        (f"CUDA libraries that are missing are the usual reason: {fixes.WITH_LIBRARIES}",),
    )
