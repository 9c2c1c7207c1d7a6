"""A line below an out-of-memory error that names who uses the memory above a reservation.

The framework's own error has only what it requested and, at most, what is free.
"""

from __future__ import annotations

import functools
import os

from gpuconf.basics.terminal import debug, say, tell_below_traceback
from gpuconf.basics.units import sized
from gpuconf.machine.cards import Gpu
from gpuconf.machine.leases.view import read_with_leases
from gpuconf.planner import GpuPlan, Plan
from gpuconf.planner.other_leases import held_by
from gpuconf.planner.plan import label


def watch(plan: Plan) -> None:
    """Explain an out-of-memory error that ends this process, whose ``plan`` reserves a part."""
    tell_below_traceback("refused growth", functools.partial(_tell, plan))


def _tell(plan: Plan, error: BaseException) -> None:
    if not _is_out_of_memory(error):
        return
    try:
        found = {gpu.uuid: gpu for gpu in read_with_leases().gpus}
        for each in plan.gpus:
            gpu = found.get(each.gpu.uuid)
            line = None if gpu is None else line_about(each, gpu, os.getpid())
            if line is not None:
                say(line)
    except Exception as trouble:  # the program is already failing
        debug(f"who uses the GPU could not be read: {trouble!r}")


def line_about(plan: GpuPlan, gpu: Gpu, pid: int) -> str | None:
    """Return who uses ``gpu`` now, and what the process ``pid`` had reserved of it.

    None if the rest of its limit was free for it, or if the driver does not report its use.
    """
    own = next((each.used_bytes for each in gpu.processes or () if each.pid == pid), None)
    if own is None or gpu.free_bytes is None or plan.most_bytes is None:
        return None
    if gpu.free_bytes >= plan.most_bytes - own:
        return None
    leases = [each for each in gpu.leases if (each.used_bytes or 0) > each.lease_bytes]
    processes = [each for each in gpu.unleased if each.used_bytes and each.pid != pid]
    others = held_by(leases, processes) or "other processes"
    return (
        f"{label(gpu)} has {sized(gpu.free_bytes)} free; used or reserved by {others}. "
        f"This process uses {sized(own)} and has reserved {sized(plan.lease_bytes or 0)}; "
        "memory above a reservation goes to the process that allocates it first"
    )


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether TensorFlow's, PyTorch's or JAX's allocator had too little memory."""
    name = type(error).__name__
    return name in ("ResourceExhaustedError", "OutOfMemoryError") or (
        name in ("JaxRuntimeError", "XlaRuntimeError") and "RESOURCE_EXHAUSTED" in str(error)
    )
