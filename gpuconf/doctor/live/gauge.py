"""The child's readings of memory: the card's and this process's by NVML, the allocator's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from gpuconf.doctor.cards import identity
from gpuconf.hardware import Gpu, Inventory, read_inventory

# TensorFlow's own count for the card at a place: bytes given out now, and at most.
Allocator = Callable[[int], "tuple[int | None, int | None]"]


class Gauge:
    """Reads the memory of the cards, which TensorFlow knows by their place in ``gpus``."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._gpus = gpus
        # None before TensorFlow has devices: asking it would make them.
        self.allocator: Allocator | None = None

    def read(self, places: Sequence[int]) -> list[dict[str, int | None]]:
        """What is taken now on the cards at ``places``; unknown is None.  Never raises."""
        inventory = read_inventory() if places and self._gpus else Inventory()
        return [self._read(place, inventory) for place in places]

    def _read(self, place: int, inventory: Inventory) -> dict[str, int | None]:
        gpu = self._find(place, inventory)
        current, peak = self._allocated(place)
        return {
            "used_bytes": None if gpu is None else gpu.used_bytes,
            "free_bytes": None if gpu is None else gpu.free_bytes,
            "own_bytes": None if gpu is None else _own_bytes(gpu),
            "current_bytes": current,
            "peak_bytes": peak,
        }

    def _find(self, place: int, inventory: Inventory) -> Gpu | None:
        if place >= len(self._gpus):
            return None
        wanted = self._gpus[place]
        every = [each for gpu in inventory.gpus for each in (gpu, *gpu.mig_instances)]
        return next((gpu for gpu in every if identity(gpu) == identity(wanted)), None)

    def _allocated(self, place: int) -> tuple[int | None, int | None]:
        if self.allocator is None:
            return None, None
        try:
            return self.allocator(place)
        except Exception:  # a card in trouble; the step that is on tells which
            return None, None


def _own_bytes(gpu: Gpu) -> int | None:
    """What this process holds; None where NVML does not tell (WSL2), or counts other pids."""
    found = [process for process in gpu.processes or () if process.pid == os.getpid()]
    return found[0].used_bytes if found else None
