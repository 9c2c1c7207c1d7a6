"""Return GPU memory that this process no longer needs, while the process keeps running.

Only PyTorch and JAX can do so.  TensorFlow keeps what it has allocated until its process ends.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpuconf.backends.jax.early_init import has_gpu_backend
from gpuconf.backends.tensorflow.early_init import devices_exist
from gpuconf.basics.units import sized
from gpuconf.machine.cards import read_inventory
from gpuconf.planner import label


class ReleasedGpu(NamedTuple):
    """How much of one GPU this process used before and after a release, as far as the driver
    says."""

    name: str
    before_bytes: int
    after_bytes: int


class Released(NamedTuple):
    """What `gpuconf.release()` did: the GPUs that this process uses, and why it keeps memory."""

    gpus: tuple[ReleasedGpu, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [
            f"{gpu.name}: {sized(gpu.before_bytes)} in use by this process before, "
            f"{sized(gpu.after_bytes)} after"
            for gpu in self.gpus
        ]
        lines = lines or ["the driver lists no GPU memory for this process"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def release() -> Released:
    """Return PyTorch's and JAX's unused memory to the GPU, and report the memory in use.

    Delete the program's own references first: ``del model, optimizer``. This function then forgets
    the last traceback and, in IPython, the results in ``Out``; both hold references to tensors.
    PyTorch returns what its allocator caches. JAX returns all of its memory if no arrays exist any
    more; otherwise it keeps all of it. A device, mesh or sharding that the program keeps also makes
    JAX keep its memory. TensorFlow keeps its memory until the process ends; run a function that
    uses it with ``gpuconf.isolated``.

    The memory that the profile reserves is returned too. PyTorch does not allocate it again; JAX
    does. The process keeps its lease and its CUDA context, a few hundred MiB.
    """
    before = _in_use()
    keeps_memory = "tensorflow" in sys.modules and devices_exist() is not None
    _forget_results()
    gc.collect()  # tensors of a failed function are often in a reference cycle
    notes = [*_release_torch(), *_release_jax()]
    if keeps_memory and before:
        notes.append(
            "TensorFlow keeps its memory until the process ends; "
            "`gpuconf.isolated` runs a function in a separate process"
        )
    after = _in_use()
    gpus = (ReleasedGpu(name, size, after.get(name, 0)) for name, size in before.items())
    return Released(tuple(gpus), tuple(notes))


def _in_use() -> dict[str, int]:
    """Return the bytes that this process uses on each GPU or MIG instance, as far as known."""
    pid = os.getpid()
    return {
        label(device): device.with_own_bytes(pid).own_bytes
        for gpu in read_inventory().gpus
        for device in (gpu, *gpu.mig_instances)
        if any(each.pid == pid and each.used_bytes for each in device.processes or ())
    }


def _forget_results() -> None:
    """Drop what Python and IPython keep from the last error and from cell results."""
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
        yield f"PyTorch keeps {sized(kept_bytes)} for tensors that the program still references"


def _release_jax() -> Iterator[str]:
    """Close JAX's clients, unless the program has arrays: a new client's arrays cannot join
    them."""
    if not has_gpu_backend():
        return
    from jax.extend import backend

    jax: Any = sys.modules["jax"]
    jax.clear_caches()  # compiled functions contain arrays
    gc.collect()
    arrays = jax.live_arrays()
    if arrays:
        size = sized(sum(array.nbytes for array in arrays))
        yield f"JAX keeps all of its memory for arrays that the program still references ({size})"
        return
    backend.clear_backends()
    gc.collect()
