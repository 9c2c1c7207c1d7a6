"""The child's side of the record: memory readings, and lines that survive a crash."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gpuconf.errors import GpuconfError
from gpuconf.machine.cards import Gpu, Inventory, read_inventory

_LONGEST_MESSAGE = 8000

# Reads the memory of the GPUs at these places: `CardGauge.read`.
Read = Callable[[Sequence[int]], "list[dict[str, int | None]]"]
# The framework's own figures for the GPU at a place: bytes allocated now, and at peak.
Allocator = Callable[[int], "tuple[int | None, int | None]"]


class StepFailed(Exception):  # noqa: N818  # says what happened, and is not an error of ours
    """A step raised; the record has the exception."""


class WrongResultError(Exception):
    """The GPU's results differ from the CPU's."""


class LimitNotHeldError(Exception):
    """The framework allocated more than the limit that it reports."""


class Recorder:
    """Writes to its own file descriptor; stdout and stderr belong to the framework."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, event: str, **fields: object) -> None:
        """Write one complete event; it survives a crash right after this call."""
        line = json.dumps({"event": event, **fields}, default=str)
        os.write(self._descriptor, f"{line}\n".encode(errors="replace"))

    @contextmanager
    def step(self, name: str, cards: Sequence[int], read: Read) -> Iterator[None]:
        """Measure and record the block; raises StepFailed if the block raises."""
        self.write("begin", step=name, cards=list(cards))
        before = read(cards)
        started = time.perf_counter()
        error: dict[str, str | None] | None = None
        try:
            yield
        except Exception as raised:  # any exception is the result of the step
            error = _describe(raised)
        seconds = round(time.perf_counter() - started, 4)
        self.write(
            "end",
            step=name,
            cards=list(cards),
            seconds=seconds,
            before=before,
            after=read(cards),
            error=error,
        )
        if error is not None:
            raise StepFailed(name)


def _describe(error: Exception) -> dict[str, str | None]:
    if isinstance(error, GpuconfError):
        return {"kind": type(error).__name__, "message": error.message, "hint": error.hint}
    return {"kind": type(error).__name__, "message": str(error)[:_LONGEST_MESSAGE], "hint": None}


class CardGauge:
    """Reads the memory of the GPUs, which the framework numbers by their position in ``gpus``."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._gpus = gpus
        # None until the framework has created its devices, because a query would create them.
        self.allocator: Allocator | None = None

    def read(self, places: Sequence[int]) -> list[dict[str, int | None]]:
        """The memory in use on the GPUs at ``places``; None means unknown.  Never raises."""
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
        return next((gpu for gpu in every if gpu.identity == wanted.identity), None)

    def _allocated(self, place: int) -> tuple[int | None, int | None]:
        if self.allocator is None:
            return None, None
        try:
            return self.allocator(place)
        except Exception:  # the GPU has a problem, which the current step reports
            return None, None


def _own_bytes(gpu: Gpu) -> int | None:
    """This process's memory; None if NVML does not report it (WSL2), or uses other PIDs."""
    found = [process for process in gpu.processes or () if process.pid == os.getpid()]
    return found[0].used_bytes if found else None
