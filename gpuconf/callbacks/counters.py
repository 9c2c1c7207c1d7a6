"""What each framework itself counts of the memory of its devices: TensorFlow, PyTorch and JAX.

Devices have TensorFlow's short names, ``GPU:0``, whatever the framework calls them.  A method may
raise whatever its framework does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Use(NamedTuple):
    """Bytes that a framework's allocator has given out: now, and at most since the last reset.

    ``pool_bytes`` is what it holds of the card, used or not, which no other process can have;
    None where the framework does not say.
    """

    current_bytes: int
    peak_bytes: int
    pool_bytes: int | None = None


class Counter(NamedTuple):
    """One framework's functions; ``devices`` may make its devices, the others do not.

    ``reset`` lets the peak begin anew.  None: it is that of the whole process.
    """

    framework: str
    devices: Callable[[], Sequence[str]]
    use: Callable[[str], Use]
    reset: Callable[[str], None] | None


def counter_for(backend: str) -> Counter | None:
    """The counter of Keras's ``backend``; None for one that has no memory of a GPU to count."""
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
    """torch counts the memory of GPUs alone; listing them makes no context."""
    import torch

    return [f"GPU:{number}" for number in range(torch.cuda.device_count())]


def _torch_use(device: str) -> Use:
    """What torch's caching allocator counts; without a context that is 0, and no error."""
    from torch import cuda

    number = _number(device)
    now, most, pool = cuda.memory_allocated, cuda.max_memory_allocated, cuda.memory_reserved
    return Use(int(now(number)), int(most(number)), int(pool(number)))


def _torch_reset(device: str) -> None:
    from torch import cuda

    if cuda.is_initialized():  # it would start CUDA otherwise: some 300 MB of the card
        cuda.reset_peak_memory_stats(_number(device))


def _jax_devices() -> list[str]:
    """This process's devices, all of one kind, by their places: Keras counts them so too."""
    import jax

    return [f"{each.platform.upper()}:{place}" for place, each in enumerate(jax.local_devices())]


def _jax_use(device: str) -> Use:
    """What XLA's allocator counts; a processor's, and the platform's own, count nothing."""
    import jax

    stats = jax.local_devices()[_number(device)].memory_stats()
    if not stats:
        raise ValueError(f"JAX's allocator for {device} keeps no count")
    pool = stats.get("pool_bytes")
    return Use(
        int(stats["bytes_in_use"]),
        int(stats["peak_bytes_in_use"]),
        None if pool is None else int(pool),
    )


_COUNTERS = {
    "tensorflow": Counter("TensorFlow", _tensorflow_devices, _tensorflow_use, _tensorflow_reset),
    "torch": Counter("PyTorch", _torch_devices, _torch_use, _torch_reset),
    # Neither 0.4.38 nor 0.10.2 has a function that resets the peak.
    "jax": Counter("JAX", _jax_devices, _jax_use, reset=None),
}
