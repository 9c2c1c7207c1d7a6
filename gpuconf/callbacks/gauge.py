"""A framework's own count of the memory of its devices, read during the user's own training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gpuconf.callbacks.counters import Counter, Use, counter_for
from gpuconf.terminal import say

_DEVICE = re.compile(r"(?:(?:/.*/|/)?device:|/)?(?P<kind>[A-Za-z_]+):(?P<number>[0-9]+)")
_BACKEND = re.compile(r"keras\.src\.backend\.([a-z]+)\b")


class DeviceGauge:
    """The framework's own count for some devices; never raises, says once why it cannot count."""

    def __init__(self) -> None:
        self._counter: Counter | None = None
        self._devices: tuple[str, ...] = ()
        self._counting: set[str] = set()
        self._peaks_at_reset: dict[str, int] = {}
        self._said: set[str] = set()

    def find(self, wanted: str | None, model: Any) -> None:
        """Settle which devices to read; TensorFlow and JAX make theirs if nothing has yet."""
        self._devices = ()
        backend = backend_of(model)
        self._counter = counter = counter_for(backend)
        if counter is None:
            self._say(f"Keras computes with {backend}, whose memory cannot be read")
            return
        try:
            names = [short_name(name) for name in counter.devices()]
        except Exception as error:  # a training must not end for want of a figure
            self._say(_first_line(error))
            return
        self._devices, problem = choose_devices(wanted, names, framework=counter.framework)
        if problem is not None:
            self._say(problem)

    @property
    def has_several(self) -> bool:
        """Whether keys must say which device is meant."""
        return len(self._devices) > 1

    def read(self, *, of_this_part: bool = False) -> dict[str, Use]:
        """What is in use on each device that counts; one that never counted a byte is left out.

        ``of_this_part`` leaves out a peak that may be older than the last reset, where the
        framework resets none.
        """
        counter = self._counter
        if counter is None:
            return {}
        try:
            uses = {device: counter.use(device) for device in self._devices}
        except Exception as error:  # an allocator that keeps no count, or a lost device
            self._give_up(error)
            return {}
        self._counting |= {device for device, use in uses.items() if use.peak_bytes > 0}
        for device in (device for device in uses if device not in self._counting):
            self._say(
                f"{counter.framework} counts no byte on {device}: the model is elsewhere, or its "
                f"allocator keeps no count",
                device,
            )
        if of_this_part and counter.reset is None:
            old = self._peaks_at_reset
            uses = {name: use for name, use in uses.items() if use.peak_bytes > old.get(name, 0)}
        return {device: use for device, use in uses.items() if device in self._counting}

    def reset(self) -> None:
        """Let each device's peak begin at what is in use now, where the framework can."""
        if self._counter is None:
            return
        try:
            for device in self._devices:
                if self._counter.reset is None:
                    self._peaks_at_reset[device] = self._counter.use(device).peak_bytes
                else:
                    self._counter.reset(device)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Read these devices no more, or the figures would be of half an epoch."""
        names = ", ".join(self._devices)
        self._devices = ()
        framework = self._counter.framework if self._counter else "Keras"
        self._say(f"{framework} does not count the memory of {names} ({_first_line(error)})")

    def _say(self, why: str, device: str | None = None) -> None:
        if why not in self._said:
            self._said.add(why)
            say(f"MemoryUsage: {why}; {device or 'its memory'} is not in the logs")


def choose_devices(
    wanted: str | None, names: Sequence[str], *, framework: str
) -> tuple[tuple[str, ...], str | None]:
    """The devices to read of those that ``framework`` has, and why there are none.

    ``names`` are as ``GPU:0``; ``wanted`` None means all GPUs.
    """
    gpus = tuple(name for name in names if name.startswith("GPU:"))
    why_no_gpu = f"{framework} uses no GPU here, `gpuconf doctor` says why"
    if wanted is None:
        return gpus, None if gpus else why_no_gpu
    short = short_name(wanted)
    if short in names:
        return (short,), None
    if gpus or not short.startswith("GPU:"):
        return (), f"{framework} has no {short}, only {', '.join(names) or 'no device at all'}"
    return (), why_no_gpu


def backend_of(model: Any) -> str:
    """What the model computes with, as ``jax``; TensorFlow where its classes do not say.

    Asked of the model and not of an imported Keras, since several may be imported.
    """
    for base in type(model).__mro__:
        found = _BACKEND.match(base.__module__)
        if found is not None and found[1] != "common":
            return found[1]
    return "tensorflow"


def short_name(device: str) -> str:
    """``GPU:1`` for ``cuda:1`` and for ``/job:worker/replica:0/task:0/device:GPU:1``."""
    kind, number = kind_and_number(device)
    return f"{'GPU' if kind == 'cuda' else kind.upper()}:{number}"


def kind_and_number(device: str) -> tuple[str, str]:
    found = _DEVICE.fullmatch(device)
    assert found is not None, device
    return found["kind"].lower(), found["number"]


def is_device(name: object) -> bool:
    """Whether a framework could have a device of that name."""
    return isinstance(name, str) and _DEVICE.fullmatch(name) is not None


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
