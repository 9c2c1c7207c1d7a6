"""What the probe's child is asked, and what it writes: JSON, one object a line.  Pure.

The child may die in the middle of a line: whatever is no line of ours is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from gpuconf.footprint.calibration import Measured

PROGRAM = f"{__package__}.program"


class Order(NamedTuple):
    """What to measure: ``target`` as on the command line, from ``folder``, at these batch sizes.

    The others are as `gpuconf.estimate` takes them, as far as a command line can say them.
    ``is_simulated`` is whether the child is on a simulated card: then it computes one operation at
    a time, because which of two came first decides the peak, and on the CPU's threads that is luck.
    """

    target: str
    folder: str
    batch_sizes: tuple[int, ...]
    training: bool = True
    optimizer: str | None = None
    loss: str | None = None
    jit: bool = False
    mixed_precision: bool | str | None = None
    input_shape: Any = None
    is_simulated: bool = False

    def as_json(self) -> str:
        """For the command line of the child."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> Order:
        """What `as_json` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "batch_sizes": tuple(fields["batch_sizes"])})


class ProbeError(NamedTuple):
    """What ended the child: an exception's type and text, and the hint of one of gpuconf's own."""

    kind: str
    message: str
    hint: str | None = None
    is_ours: bool = False


class Record(NamedTuple):
    """All that a child wrote.

    ``doing`` is what it was at, ``card`` the name of its card; ``has_no_gpu`` that TensorFlow had
    none.  ``first_step_bytes`` are the peaks of the first steps, in the order of ``measured``.
    """

    doing: str = "starting TensorFlow"
    card: str | None = None
    has_no_gpu: bool = False
    measured: tuple[Measured, ...] = ()
    first_step_bytes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    error: ProbeError | None = None


def read_record(text: str) -> Record:
    """Read what a child wrote so far; never raise."""
    record = Record()
    for line in text.splitlines():
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            told = json.loads(line)
            record = record._replace(**_CHANGES[told["event"]](record, told))
    return record


def _measured(record: Record, told: dict[str, Any]) -> dict[str, Any]:
    measured = Measured(int(told["batch_size"]), int(told["peak_bytes"]))
    firsts = (*record.first_step_bytes, int(told["first_step_bytes"]))
    return {"measured": (*record.measured, measured), "first_step_bytes": firsts}


# What each kind of line changes in the record.
_CHANGES: dict[str, Callable[[Record, dict[str, Any]], dict[str, Any]]] = {
    "doing": lambda _, told: {"doing": str(told["what"])},
    "card": lambda _, told: {"card": str(told["name"])},
    "no-gpu": lambda *_: {"has_no_gpu": True},
    "note": lambda record, told: {"notes": (*record.notes, str(told["text"]))},
    "measured": _measured,
    "error": lambda _, told: {"error": ProbeError(**told["error"])},
}
