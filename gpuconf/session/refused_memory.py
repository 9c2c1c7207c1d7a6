"""A line below an out-of-memory error: the process's limit, or who uses the rest of the GPU.

The framework's own error reports only what it requested and, at most, what is free.
"""

from __future__ import annotations

import functools
import os
import re

from gpuconf.basics.terminal import debug, say, tell_below_traceback
from gpuconf.basics.units import sized
from gpuconf.machine.cards import Gpu
from gpuconf.machine.leases.reading import read_with_leases
from gpuconf.planner import GpuPlan, Plan
from gpuconf.planner.other_leases import held_by
from gpuconf.planner.plan import label

# RESOURCE_EXHAUSTED is also for host memory, full disks, open files, and a kernel's shared memory.
_REFUSAL = re.compile(r"alloc|\boom\b|out of memory", re.IGNORECASE)
_GPU = re.compile(r"\bGPU[: ](\d+)\b")  # in TensorFlow's and PyTorch's errors
_OF_THE_HOST = re.compile(r"allocator (?:cpu|mklcpu)|host_bfc|\bon \S*device:CPU|Cannot allocate")


def watch(plan: Plan) -> None:
    """Explain an out-of-memory error that ends this process, which ``plan`` limits."""
    tell_below_traceback("refused memory", functools.partial(_tell, plan))


def _tell(plan: Plan, error: BaseException) -> None:
    if not _is_out_of_memory(error):
        return
    try:
        found = {gpu.uuid: gpu for gpu in read_with_leases().gpus}
        gpus = _named_in(str(error), plan)
        pairs = [(each, found[each.gpu.uuid]) for each in gpus if each.gpu.uuid in found]
        lines = [who_uses(*pair, os.getpid()) for pair in pairs]
        if pairs and not any(lines):
            most_used = max(pairs, key=lambda pair: _own_bytes(pair[1], os.getpid()) or 0)
            lines = [limit_of(*most_used, plan.profile.name)]
        for line in filter(None, lines):
            say(line)
    except Exception as trouble:  # the program is already failing
        debug(f"could not read which processes use the GPU: {trouble!r}")


def _named_in(text: str, plan: Plan) -> tuple[GpuPlan, ...]:
    """Return the GPU that an error names by its index in the framework; all if unknown."""
    named = _GPU.search(text)
    if named is None or any(each.logical_devices_bytes for each in plan.gpus):
        return plan.gpus
    return plan.gpus[int(named[1]) :][:1] or plan.gpus


def who_uses(plan: GpuPlan, gpu: Gpu, pid: int) -> str | None:
    """Return who is using ``gpu`` now, and how much of it the process ``pid`` uses and may use.

    None if the rest of the process's limit was free for it, or if the driver does not report how
    much it uses.
    """
    own = _own_bytes(gpu, pid)
    most = plan.most_bytes if plan.preallocated_bytes else plan.limit_bytes
    if own is None or gpu.free_bytes is None or most is None or gpu.free_bytes >= most - own:
        return None
    leases = [each for each in gpu.leases if (each.used_bytes or 0) > each.lease_bytes]
    processes = [each for each in gpu.unleased if each.used_bytes and each.pid != pid]
    others = held_by(leases, processes) or "other processes"
    rest = f", and its limit is {sized(most)}"
    if plan.preallocated_bytes:
        rest = (
            f" and has reserved {sized(plan.lease_bytes or 0)}; "
            "memory above a reservation goes to the process that allocates it first"
        )
    return (
        f"{label(gpu)} has {sized(gpu.free_bytes)} free; used or reserved by {others}. "
        f"This process uses {sized(own)}{rest}"
    )


def _own_bytes(gpu: Gpu, pid: int) -> int | None:
    return next((each.used_bytes for each in gpu.processes or () if each.pid == pid), None)


def limit_of(plan: GpuPlan, gpu: Gpu, profile: str) -> str | None:
    """Return the limit set by ``profile`` that refused the memory; None if there is no limit."""
    if plan.limit_bytes is None or gpu.free_bytes is None:
        return None
    more = "`gpuconf plan` shows which rule sets the limit"
    if _own_bytes(gpu, os.getpid()) is None:
        more = "`gpuconf ps` estimates who uses the rest, which the driver does not report"
    return (
        f"the limit of this process on {label(gpu)} is {sized(plan.limit_bytes)} (profile "
        f"{profile}); {sized(gpu.free_bytes)} of the GPU's memory is free. {more}"
    )


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether TensorFlow's, PyTorch's or JAX's allocator could not get enough memory on a GPU."""
    name, text = type(error).__name__, str(error)
    if name == "OutOfMemoryError":
        return True
    is_of_xla = name in ("JaxRuntimeError", "XlaRuntimeError") and "RESOURCE_EXHAUSTED" in text
    is_exhausted = name == "ResourceExhaustedError" or is_of_xla
    return is_exhausted and bool(_REFUSAL.search(text)) and not _OF_THE_HOST.search(text)
