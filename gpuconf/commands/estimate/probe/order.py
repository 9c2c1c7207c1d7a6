"""The request to the probe's child and its records: JSON, one object per line.  Pure.

The child may fail in the middle of a line, so lines that cannot be parsed are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from gpuconf.basics.json_shape import Bytes, Count
from gpuconf.basics.json_values import UnreadableError, decoded, json_objects, plain
from gpuconf.commands.estimate.calibration import MeasuredPeak

PROGRAM = f"{__package__}.program"


class Order(NamedTuple):
    """What to measure: ``target`` as on the command line, from ``folder``, at these batch sizes.

    The other fields are options of `gpuconf.estimate`, if a command line can express them.
    ``is_simulated`` is set for a simulated GPU.  The child then runs one operation at a time,
    because the peak depends on the order of operations, which is random on the CPU's threads.
    """

    target: str
    folder: str
    batch_sizes: tuple[int, ...]
    training: bool = True
    optimizer: str | None = None
    loss: str | None = None
    jit: bool | None = None
    mixed_precision: bool | str | None = None
    input_shape: Any = None
    is_simulated: bool = False

    def as_json(self) -> str:
        """Return the order as JSON for the child's command line."""
        return json.dumps(plain(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        """Read what `as_json` wrote."""
        return decoded(cls, json.loads(text))


class ProbeError(NamedTuple):
    """The exception that ended the child, and whether it is one of gpuconf's own."""

    kind: str
    message: str
    hint: str | None = None
    is_ours: bool = False


class MeasurementRecord(NamedTuple):
    """Everything that a child wrote.

    ``doing`` is its last activity, ``card`` the name of its GPU, and ``has_no_gpu`` is set if
    TensorFlow had no GPU.  ``first_step_bytes`` are the peaks of the first steps, in the order of
    ``measured``.
    """

    doing: str = "starting TensorFlow"
    card: str | None = None
    has_no_gpu: bool = False
    measured: tuple[MeasuredPeak, ...] = ()
    first_step_bytes: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    error: ProbeError | None = None


def read_record(text: str) -> MeasurementRecord:
    """Read what a child has written so far; never raise."""
    record = MeasurementRecord()
    for line in json_objects(text):
        change = _CHANGES.get(str(line.get("event")))
        with suppress(UnreadableError):
            record = record if change is None else record._replace(**change(record, line))
    return record


class _TwoSteps(NamedTuple):
    """The line with the peaks of two steps at one batch size."""

    batch_size: Count
    peak_bytes: Bytes
    first_step_bytes: Bytes


def _measured(record: MeasurementRecord, line: dict[str, Any]) -> dict[str, Any]:
    found = decoded(_TwoSteps, line)
    measured = MeasuredPeak(found.batch_size, found.peak_bytes)
    firsts = (*record.first_step_bytes, found.first_step_bytes)
    return {"measured": (*record.measured, measured), "first_step_bytes": firsts}


# How each kind of line changes the record.
_CHANGES: dict[str, Callable[[MeasurementRecord, dict[str, Any]], dict[str, Any]]] = {
    "doing": lambda _, line: {"doing": decoded(str, line.get("what"))},
    "card": lambda _, line: {"card": decoded(str, line.get("name"))},
    "no-gpu": lambda *_: {"has_no_gpu": True},
    "note": lambda record, line: {"notes": (*record.notes, decoded(str, line.get("text")))},
    "measured": _measured,
    "error": lambda _, line: {"error": decoded(ProbeError, line.get("error"))},
}
