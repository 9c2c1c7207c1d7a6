"""The card that TensorFlow computes on: its name, what it may take, and what it has taken."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from gpuconf.keras_api.devices import gpu_limits, is_computing
from gpuconf.units import MIB

# Of a limit: twice the samples may need more than twice the memory, in odd pieces.
_LIMIT_SHARE = 0.9


class TensorFlowDevice(NamedTuple):
    """TensorFlow's device, ``GPU:0`` or ``CPU:0``, and bytes of its allocator; unknown is None."""

    name: str
    limit_bytes: int | None = None
    in_use_bytes: int | None = None

    @property
    def free_bytes(self) -> int | None:
        """What may still be taken."""
        if self.limit_bytes is None:
            return None
        return max(0, self.limit_bytes - (self.in_use_bytes or 0))


def current_card(environ: Mapping[str, str] = os.environ) -> TensorFlowDevice:
    """The first GPU, where there is one; makes TensorFlow's devices, if nothing has yet."""
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return TensorFlowDevice("CPU:0", _limit_of_cpu(environ))
    limit = None
    with suppress(ImportError, AttributeError):  # names of another version: it is not known
        limit = next((size for name, size in gpu_limits() if name.endswith("GPU:0")), None)
    return TensorFlowDevice("GPU:0", limit or None, _info("GPU:0").get("current"))


def card_in_use() -> TensorFlowDevice | None:
    """The card, if TensorFlow computes already; asking must not make it take one."""
    return current_card() if is_computing() else None


def room_to_double(card: TensorFlowDevice) -> Callable[[], bool]:
    """Asked after a batch: whether one of twice the size should fit, by the most that was in use.

    Where the allocator keeps no count nobody knows, and it says yes.
    """
    in_use = card.in_use_bytes or 0

    def has_room() -> bool:
        peak = _info(card.name).get("peak") if card.limit_bytes is not None else None
        if peak is None or card.limit_bytes is None:
            return True
        return in_use + 2 * (peak - in_use) < _LIMIT_SHARE * card.limit_bytes

    return has_room


def _info(name: str) -> dict[str, int]:
    import tensorflow as tf

    try:
        found: dict[str, int] = tf.config.experimental.get_memory_info(name)
    except (ValueError, tf.errors.OpError):  # an allocator that keeps no count
        return {}
    return found


def _limit_of_cpu(environ: Mapping[str, str]) -> int | None:
    """The limit of TensorFlow's own allocator on the CPU, where somebody asked for one."""
    limit = environ.get("TF_CPU_BFC_MEM_LIMIT_IN_MB", "")
    is_used = environ.get("TF_CPU_ALLOCATOR_USE_BFC", "").lower() in ("1", "true")
    return int(limit) * MIB if is_used and limit.isdecimal() else None
