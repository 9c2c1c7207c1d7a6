"""The child's side of the record: every line is out before the next thing is tried."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gpuconf.errors import GpuconfError

_LONGEST_MESSAGE = 8000

# Reads the memory of the cards at these places; see gpuconf.doctor.live.gauge.
Read = Callable[[Sequence[int]], "list[dict[str, int | None]]"]


class StepFailed(Exception):  # noqa: N818  # says what happened, and is no error of ours
    """A step raised; it is in the record."""


class WrongResultError(Exception):
    """The card computed, and other numbers than the processor."""


class Recorder:
    """Writes to a file descriptor that is neither stdout nor stderr, which are TensorFlow's."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, event: str, **fields: object) -> None:
        """Write one event, whole; a crash right after this call does not lose it."""
        line = json.dumps({"event": event, **fields}, default=str)
        os.write(self._descriptor, f"{line}\n".encode(errors="replace"))

    @contextmanager
    def step(self, name: str, cards: Sequence[int], read: Read) -> Iterator[None]:
        """Measure and record what is done inside; raise StepFailed if that raises."""
        self.write("begin", step=name, cards=list(cards))
        before = read(cards)
        started = time.perf_counter()
        error: dict[str, str | None] | None = None
        try:
            yield
        except Exception as raised:  # whatever it is, it is the answer
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
