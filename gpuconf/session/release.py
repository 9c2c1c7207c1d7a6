"""Return GPU memory that this process no longer needs, while it continues.

Only PyTorch and JAX can.  TensorFlow keeps what it has allocated until its process ends.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpuconf.backends.jax.lateness import has_gpu_backend
from gpuconf.backends.tensorflow.lateness import devices_exist
from gpuconf.basics.units import sized
from gpuconf.machine.cards import read_inventory
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.planner import label
from gpuconf.session.configure import bound_plan


class ReleasedGpu(NamedTuple):
    """One GPU's memory in use before and after a release; None if unknown.

    It is this process's, or that of all processes if the driver does not list this one
    (``is_own`` is False), as in many containers.
    """

    name: str
    before_bytes: int | None
    after_bytes: int | None
    is_own: bool

    def __str__(self) -> str:
        sizes = (self.before_bytes, self.after_bytes)
        before, after = ("unknown" if size is None else sized(size) for size in sizes)
        whose = "this process" if self.is_own else "all processes"
        return f"{self.name}: {before} in use by {whose} before, {after} after"


class Released(NamedTuple):
    """What `gpuconf.release()` did: each GPU that this process uses, and what kept memory."""

    gpus: tuple[ReleasedGpu, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [str(gpu) for gpu in self.gpus] or ["this process uses no GPU"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def release() -> Released:
    """Return unused memory of PyTorch and JAX to the GPU, and report the memory in use.

    Delete the program's own references first: ``del model, optimizer``.  This function then forgets
    the last traceback and, in IPython, the results in ``Out``; both refer to tensors.  PyTorch
    returns what its allocator caches.  JAX returns all of its memory if no array exists any more;
    otherwise it keeps all.  TensorFlow keeps its memory until the process ends; run such a function
    with ``gpuconf.isolated``.

    The memory that the profile reserves is returned too.  PyTorch does not allocate it again, JAX
    does.  The process keeps its lease and its CUDA context, some hundred MiB.
    """
    before = dict(_in_use())
    keeps_memory = "tensorflow" in sys.modules and devices_exist() is not None
    _forget_results()
    gc.collect()  # tensors of a failed function are often in a reference cycle
    notes = [*_release_torch(), *_release_jax()]
    after = dict(_in_use())
    gpus = tuple(_compared(gpu, after.get(identity)) for identity, gpu in before.items())
    if gpus and keeps_memory:
        notes.append(
            "TensorFlow keeps its memory until the process ends; "
            "`gpuconf.isolated` runs a function in a separate process"
        )
    return Released(gpus, tuple(notes))


def _in_use() -> Iterator[tuple[object, Gpu]]:
    """Yield the GPUs and MIG instances that this process uses or has a plan for."""
    plan = bound_plan()
    planned = {each.gpu.identity for each in plan.gpus} if plan else set()
    for gpu in read_inventory().gpus:
        for device in (gpu, *gpu.mig_instances):
            if device.identity in planned or _is_listed(device):
                yield device.identity, device


def _is_listed(gpu: Gpu) -> bool:
    return any(each.pid == os.getpid() for each in gpu.processes or ())


def _compared(before: Gpu, after: Gpu | None) -> ReleasedGpu:
    """Compare a GPU's memory in use; after is None if this process no longer uses the GPU."""
    if not _is_listed(before):
        after_bytes = after.used_bytes if after else None
        return ReleasedGpu(label(before), before.used_bytes, after_bytes, is_own=False)
    pid = os.getpid()
    after_bytes = after.with_own_bytes(pid).own_bytes if after else 0
    before_bytes = before.with_own_bytes(pid).own_bytes
    return ReleasedGpu(label(before), before_bytes, after_bytes, is_own=True)


def _forget_results() -> None:
    """Drop what Python and IPython keep of the last error and of the cells' results."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if hasattr(ipython, "get_ipython") else None
    if shell is None:
        return
    shell.InteractiveTB.tb = shell.last_execution_result = None
    if shell.displayhook.do_full_cache:  # otherwise there is no Out
        shell.displayhook.flush()
        hidden = shell.user_ns_hidden  # with copies of the last results, which flush() leaves
        hidden.update({name: "" for name in ("_", "__", "___") if name in hidden})


def _release_torch() -> Iterator[str]:
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return
    cuda.empty_cache()
    kept_bytes = sum(cuda.memory_allocated(index) for index in range(cuda.device_count()))
    if kept_bytes:
        yield f"PyTorch keeps {sized(kept_bytes)} for tensors that the program still refers to"


def _release_jax() -> Iterator[str]:
    """Close JAX's clients if the program has no arrays, which those of a new client cannot join."""
    if not has_gpu_backend():
        return
    from jax.extend import backend

    jax: Any = sys.modules["jax"]
    jax.clear_caches()  # compiled functions contain arrays
    gc.collect()
    arrays = jax.live_arrays()
    if arrays:
        size = sized(sum(array.nbytes for array in arrays))
        yield f"JAX keeps all of its memory for arrays that the program still refers to ({size})"
        return
    backend.clear_backends()
    gc.collect()
