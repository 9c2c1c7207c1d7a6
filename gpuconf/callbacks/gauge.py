"""TensorFlow's own count of the memory of its devices, read during the user's own training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from gpuconf.terminal import say

_DEVICE = re.compile(r"(?:(?:/.*/|/)?device:|/)?(?P<kind>[A-Za-z_]+):(?P<number>[0-9]+)")
_OTHER_BACKEND = re.compile(r"keras\.src\.backend\.(jax|torch|numpy|openvino)\b")
_WHY_NO_GPU = "TensorFlow uses no GPU here, `gpuconf doctor` says why"


class Use(NamedTuple):
    """Bytes that TensorFlow's allocator has given out: now, and at most since the last reset."""

    current_bytes: int
    peak_bytes: int


class DeviceGauge:
    """TensorFlow's own count for some devices; never raises, and says once why it cannot count."""

    def __init__(self) -> None:
        self._devices: tuple[str, ...] = ()
        self._said: set[str] = set()

    def find(self, wanted: str | None, model: Any) -> None:
        """Settle which devices to read; makes TensorFlow's devices if nothing has yet."""
        self._devices = ()
        backend = _other_backend(model)
        if backend is not None:
            self._say(f"Keras computes with {backend}, and only TensorFlow's memory can be read")
            return
        try:
            import tensorflow as tf

            names = [short_name(device.name) for device in tf.config.list_logical_devices()]
        except Exception as error:  # a training must not end for want of a figure
            self._say(_first_line(error))
            return
        self._devices, problem = choose_devices(wanted, names)
        if problem is not None:
            self._say(problem)

    @property
    def has_several(self) -> bool:
        """Whether keys must say which device is meant."""
        return len(self._devices) > 1

    def read(self) -> dict[str, Use]:
        """What is in use on each device that counts; unknown is left out, and no 0."""
        try:
            uses = {device: _use_of(device) for device in self._devices}
        except Exception as error:  # an allocator that keeps no count, or a lost device
            self._give_up(error)
            return {}
        for device in (device for device, use in uses.items() if use.peak_bytes == 0):
            self._say(
                f"TensorFlow counts no byte on {device}: the model is elsewhere, or its allocator "
                f"keeps no count",
                device,
            )
        return {device: use for device, use in uses.items() if use.peak_bytes > 0}

    def reset(self) -> None:
        """Let each device's peak begin at what is in use now."""
        try:
            for device in self._devices:
                _reset(device)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Read these devices no more, or the figures would be of half an epoch."""
        names = ", ".join(self._devices)
        self._devices = ()
        self._say(f"TensorFlow does not count the memory of {names} ({_first_line(error)})")

    def _say(self, why: str, device: str | None = None) -> None:
        if why not in self._said:
            self._said.add(why)
            say(f"MemoryUsage: {why}; {device or 'its memory'} is not in the logs")


def choose_devices(wanted: str | None, names: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """The devices to read of those that TensorFlow has, and why there are none.

    ``names`` are as ``GPU:0``; ``wanted`` None means all GPUs.
    """
    gpus = tuple(name for name in names if name.startswith("GPU:"))
    if wanted is None:
        return gpus, None if gpus else _WHY_NO_GPU
    short = short_name(wanted)
    if short in names:
        return (short,), None
    if gpus or not short.startswith("GPU:"):
        return (), f"TensorFlow has no {short}, only {', '.join(names) or 'no device at all'}"
    return (), _WHY_NO_GPU


def _use_of(device: str) -> Use:
    import tensorflow as tf

    info = tf.config.experimental.get_memory_info(device)
    return Use(int(info["current"]), int(info["peak"]))


def _reset(device: str) -> None:
    import tensorflow as tf

    tf.config.experimental.reset_memory_stats(device)


def _other_backend(model: Any) -> str | None:
    """What the model computes with where that is not TensorFlow, as ``jax``.

    Asked of the model and not of an imported Keras, since several may be imported.
    """
    for base in type(model).__mro__:
        found = _OTHER_BACKEND.match(base.__module__)
        if found is not None:
            return found[1]
    return None


def short_name(device: str) -> str:
    """``GPU:1`` for TensorFlow's longer names: ``/job:worker/replica:0/task:0/device:GPU:1``."""
    kind, number = kind_and_number(device)
    return f"{kind.upper()}:{number}"


def kind_and_number(device: str) -> tuple[str, str]:
    found = _DEVICE.fullmatch(device)
    assert found is not None, device
    return found["kind"].lower(), found["number"]


def is_device(name: object) -> bool:
    """Whether TensorFlow could have a device of that name."""
    return isinstance(name, str) and _DEVICE.fullmatch(name) is not None


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
