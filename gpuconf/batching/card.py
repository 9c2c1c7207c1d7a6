"""The GPU that a framework computes on: its name, its memory limit, and the memory in use."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from gpuconf.backends.jax.early_init import has_gpu_backend
from gpuconf.basics.units import MIB
from gpuconf.callbacks.counters import Use, counter_for
from gpuconf.support.keras_api.devices import gpu_limits, is_computing

# Share of the limit that a doubled batch may use: twice the samples may need more than twice the
# memory, and free memory may be fragmented.
_LIMIT_SHARE = 0.9


class ComputeDevice(NamedTuple):
    """A device, ``GPU:0`` or ``CPU:0``, and its allocator's limit and use; None if unknown.

    ``framework`` owns the allocator; the name is that of Keras's backend.
    """

    name: str
    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    framework: str = "tensorflow"

    @property
    def free_bytes(self) -> int | None:
        """Bytes that can still be allocated."""
        if self.limit_bytes is None:
            return None
        return max(0, self.limit_bytes - (self.in_use_bytes or 0))


def current_card(framework: str = "tensorflow") -> ComputeDevice:
    """Return the GPU that the framework computes on, or the CPU if there is none.

    Initializes TensorFlow's devices if they are not initialized yet.  PyTorch and JAX are queried
    only if they already use a GPU; until then the result is the CPU.
    """
    found = {"torch": _of_torch, "jax": _of_jax}.get(framework, _of_tensorflow)()
    return found._replace(framework=framework)


def card_in_use() -> ComputeDevice | None:
    """Return the GPU if exactly one framework already uses one; never initializes a GPU."""
    computing = {"tensorflow": is_computing, "torch": has_cuda, "jax": has_gpu_backend}
    found = [framework for framework, is_used in computing.items() if is_used()]
    return current_card(found[0]) if len(found) == 1 else None


def room_to_double(card: ComputeDevice) -> Callable[[], bool]:
    """Return a function that checks, after a batch, whether a batch of twice the size should fit.

    It compares the peak use with the limit.  If the allocator keeps no statistics, it returns True.
    It also returns True if PyTorch's peak predates this batch: PyTorch refuses at once, while
    TensorFlow and XLA wait 10 seconds.
    """
    in_use = card.in_use_bytes or 0
    before = _use(card) if card.framework == "torch" else None

    def has_room() -> bool:
        use = _use(card) if card.limit_bytes is not None else None
        if use is None or card.limit_bytes is None:
            return True
        if before is not None and use.peak_bytes == before.peak_bytes:
            return True
        return in_use + 2 * (use.peak_bytes - in_use) < _LIMIT_SHARE * card.limit_bytes

    return has_room


def free_cached() -> None:
    """Release PyTorch's cached memory to the GPU; JAX and TensorFlow keep their pools."""
    if has_cuda():
        gc.collect()  # tensors of a failed module are often in a reference cycle
        sys.modules["torch"].cuda.empty_cache()


def has_cuda() -> bool:
    """Whether PyTorch has started CUDA."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and bool(cuda.is_initialized())


def _of_tensorflow(environ: Mapping[str, str] = os.environ) -> ComputeDevice:
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return ComputeDevice("CPU:0", _limit_of_cpu(environ))
    limit = None
    with suppress(ImportError, AttributeError):  # other versions lack these names
        limit = next((size for name, size in gpu_limits() if name.endswith("GPU:0")), None)
    return _in_use(ComputeDevice("GPU:0", limit or None))


def _of_torch() -> ComputeDevice:
    """Return the current GPU; its limit is PyTorch's cap, or less if less memory is free."""
    if not has_cuda():
        return ComputeDevice("CPU:0")
    cuda: Any = sys.modules["torch"].cuda
    number = int(cuda.current_device())
    free, total = cuda.mem_get_info(number)
    share = getattr(cuda, "get_per_process_memory_fraction", lambda _: 1.0)(number)
    limit = min(int(total * share), int(free + cuda.memory_reserved(number)))
    return _in_use(ComputeDevice(f"GPU:{number}", limit, framework="torch"))


def _of_jax() -> ComputeDevice:
    if not has_gpu_backend():
        return ComputeDevice("CPU:0")
    import jax

    if jax.default_backend() == "cpu":
        return ComputeDevice("CPU:0")
    stats = jax.local_devices()[0].memory_stats() or {}
    return _in_use(ComputeDevice("GPU:0", stats.get("bytes_limit"), framework="jax"))


def _in_use(card: ComputeDevice) -> ComputeDevice:
    use = _use(card)
    return card._replace(in_use_bytes=None if use is None else use.current_bytes)


def _use(card: ComputeDevice) -> Use | None:
    counter = counter_for(card.framework)
    try:
        return None if counter is None else counter.use(card.name)
    except Exception:  # an allocator without statistics; each framework raises its own error
        return None


def _limit_of_cpu(environ: Mapping[str, str]) -> int | None:
    """Return the limit of TensorFlow's CPU allocator, if one is configured."""
    limit = environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB", "")
    is_used = environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true")
    return int(limit) * MIB if is_used and limit.isdecimal() else None
