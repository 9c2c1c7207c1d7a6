"""Memory statistics from TensorFlow, PyTorch and JAX, read from each framework's own allocator.

Devices are named as in TensorFlow (``GPU:0``) for every framework. Exceptions from the framework
are not caught here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Use(NamedTuple):
    """Bytes allocated by a framework: currently, and the peak since the last reset.

    ``pool_bytes`` is the memory that the allocator has reserved on the GPU, used or not, which is
    unavailable to other processes; None if the framework does not report it.
    """

    current_bytes: int
    peak_bytes: int
    pool_bytes: int | None = None


class Counter(NamedTuple):
    """The memory functions of one framework; only ``devices`` may initialize its devices.

    ``reset`` resets the peak. None if the framework cannot do that; the peak then covers the entire
    life of the process.
    """

    framework: str
    devices: Callable[[], Sequence[str]]
    use: Callable[[str], Use]
    reset: Callable[[str], None] | None


def counter_for(backend: str) -> Counter | None:
    """Return the counter for a Keras backend; None if the backend has no GPU memory to count."""
    return _COUNTERS.get(backend)


def _number(device: str) -> int:
    return int(device.partition(":")[2])


def _tensorflow_devices() -> list[str]:
    import tensorflow as tf

    return [device.name for device in tf.config.list_logical_devices()]


def _tensorflow_use(device: str) -> Use:
    import tensorflow as tf

    info = tf.config.experimental.get_memory_info(device)
    return Use(int(info["current"]), int(info["peak"]))


def _tensorflow_reset(device: str) -> None:
    import tensorflow as tf

    tf.config.experimental.reset_memory_stats(device)


def _torch_devices() -> list[str]:
    """List the GPUs, the only devices whose memory torch counts; this creates no CUDA context."""
    import torch

    return [f"GPU:{number}" for number in range(torch.cuda.device_count())]


def _torch_use(device: str) -> Use:
    """Read torch's caching allocator; without a CUDA context the counts are 0, not an error."""
    from torch import cuda

    number = _number(device)
    now, most, pool = cuda.memory_allocated, cuda.max_memory_allocated, cuda.memory_reserved
    return Use(int(now(number)), int(most(number)), int(pool(number)))


def _torch_reset(device: str) -> None:
    from torch import cuda

    if cuda.is_initialized():  # otherwise this would start CUDA, some 300 MB of the GPU
        cuda.reset_peak_memory_stats(_number(device))


def _jax_devices() -> list[str]:
    """List this process's devices, all of one kind, numbered by position as Keras does."""
    import jax

    return [f"{each.platform.upper()}:{place}" for place, each in enumerate(jax.local_devices())]


def _jax_use(device: str) -> Use:
    """Read XLA's allocator; CPU devices and the platform allocator keep no statistics."""
    import jax

    stats = jax.local_devices()[_number(device)].memory_stats()
    if not stats:
        raise ValueError(f"JAX's allocator for {device} keeps no statistics")
    pool = stats.get("pool_bytes")
    return Use(
        int(stats["bytes_in_use"]),
        int(stats["peak_bytes_in_use"]),
        None if pool is None else int(pool),
    )


_COUNTERS = {
    "tensorflow": Counter("TensorFlow", _tensorflow_devices, _tensorflow_use, _tensorflow_reset),
    "torch": Counter("PyTorch", _torch_devices, _torch_use, _torch_reset),
    # Neither JAX 0.4.38 nor 0.10.2 can reset the peak.
    "jax": Counter("JAX", _jax_devices, _jax_use, reset=None),
}
