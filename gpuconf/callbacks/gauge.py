"""Reads a framework's device memory statistics during training."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gpuconf.basics.terminal import say
from gpuconf.callbacks.counters import Counter, Use, counter_for

_DEVICE = re.compile(r"(?:(?:/.*/|/)?device:|/)?(?P<kind>[A-Za-z_]+):(?P<number>[0-9]+)")
_BACKEND = re.compile(r"keras\.src\.backend\.([a-z]+)\b")


class DeviceGauge:
    """A framework's memory statistics for some devices; never raises; reports each problem once."""

    def __init__(self) -> None:
        self._counter: Counter | None = None
        self._devices: tuple[str, ...] = ()
        self._counting: set[str] = set()
        self._peaks_at_reset: dict[str, int] = {}
        self._said: set[str] = set()

    def find(self, wanted: str | None, model: Any) -> None:
        """Select the devices to read; TensorFlow and JAX initialize theirs if needed."""
        self._devices = ()
        backend = backend_of(model)
        self._counter = counter = counter_for(backend)
        if counter is None:
            self._say(f"Keras runs on {backend}, whose memory use cannot be read")
            return
        try:
            names = [short_name(name) for name in counter.devices()]
        except Exception as error:  # a missing figure must not end a training run
            self._say(_first_line(error))
            return
        self._devices, problem = choose_devices(wanted, names, framework=counter.framework)
        if problem is not None:
            self._say(problem)

    @property
    def has_several(self) -> bool:
        """Whether the log keys need a device number."""
        return len(self._devices) > 1

    def read(self, *, of_this_part: bool = False) -> dict[str, Use]:
        """Return the memory in use on each device; devices that never counted a byte are left out.

        If the framework cannot reset its peak, ``of_this_part`` also leaves out devices whose peak
        may be older than the last reset.
        """
        counter = self._counter
        if counter is None:
            return {}
        try:
            uses = {device: counter.use(device) for device in self._devices}
        except Exception as error:  # an allocator without statistics, or a lost device
            self._give_up(error)
            return {}
        self._counting |= {device for device, use in uses.items() if use.peak_bytes > 0}
        for device in (device for device in uses if device not in self._counting):
            self._say(
                f"{counter.framework} reports no bytes on {device}: the model is on another "
                f"device, or its allocator keeps no statistics",
                device,
            )
        if of_this_part and counter.reset is None:
            old = self._peaks_at_reset
            uses = {name: use for name, use in uses.items() if use.peak_bytes > old.get(name, 0)}
        return {device: use for device, use in uses.items() if device in self._counting}

    def reset(self) -> None:
        """Reset each device's peak to the memory now in use, if the framework can."""
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
        """Stop reading these devices, since figures for part of an epoch would be wrong."""
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
    """Return which of ``framework``'s devices to read, and the reason if there are none.

    ``names`` look like ``GPU:0``.  If ``wanted`` is None, all GPUs are read.
    """
    gpus = tuple(name for name in names if name.startswith("GPU:"))
    why_no_gpu = f"{framework} uses no GPU here; `gpuconf doctor` shows why"
    if wanted is None:
        return gpus, None if gpus else why_no_gpu
    short = short_name(wanted)
    if short in names:
        return (short,), None
    if gpus or not short.startswith("GPU:"):
        return (), f"{framework} has no {short}, only {', '.join(names) or 'no device at all'}"
    return (), why_no_gpu


def backend_of(model: Any) -> str:
    """Return the model's Keras backend, such as ``jax``; TensorFlow if its classes do not show it.

    The model decides, not an imported Keras, since several may be imported.
    """
    for base in type(model).__mro__:
        found = _BACKEND.match(base.__module__)
        if found is not None and found[1] != "common":
            return found[1]
    return "tensorflow"


def short_name(device: str) -> str:
    """Return ``GPU:1`` for ``cuda:1`` and for ``/job:worker/replica:0/task:0/device:GPU:1``."""
    kind, number = kind_and_number(device)
    return f"{'GPU' if kind == 'cuda' else kind.upper()}:{number}"


def kind_and_number(device: str) -> tuple[str, str]:
    found = _DEVICE.fullmatch(device)
    assert found is not None, device
    return found["kind"].lower(), found["number"]


def is_device(name: object) -> bool:
    """Whether ``name`` is a valid device name in any framework."""
    return isinstance(name, str) and _DEVICE.fullmatch(name) is not None


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
