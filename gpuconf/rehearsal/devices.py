"""What a run's trace says of each GPU device of TensorFlow.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuconf.json_shape import Bytes, Count, json_shape
from gpuconf.rehearsal.breakdown import Row, first_step_ns, names_of, rows_of
from gpuconf.rehearsal.runs import RunResult


@json_shape(computed=("head_room_bytes",), renamed={"rows": "at_peak"})
@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One GPU device of TensorFlow: its limit, and what the program made of it."""

    index: Count
    """TensorFlow's number for it."""
    card: Count | None
    """The number of the simulated card it is on."""
    limit_bytes: Bytes
    """What TensorFlow may take."""
    peak_bytes: Bytes
    """The most that was in use."""
    held_bytes: Bytes | None
    """What the processes held on that card at most, all its devices and contexts together."""
    rows: tuple[Row, ...]
    """What was in use at the peak, the largest first."""

    @property
    def head_room_bytes(self) -> int:
        """What was left of the limit at the peak."""
        return self.limit_bytes - self.peak_bytes


def devices_of(run: RunResult) -> tuple[DeviceReport, ...]:
    """Each GPU device that the run's trace knows, and those that TensorFlow made and left idle."""
    if run.tape is None:
        return ()
    known = {device["index"]: device for device in run.trainer.get("devices", ())}
    names, began = names_of(run.trainer), first_step_ns(run.tape)
    reports = {
        usage.index: DeviceReport(
            index=usage.index,
            card=known.get(usage.index, {}).get("card"),
            limit_bytes=usage.limit_bytes,
            peak_bytes=usage.peak_bytes,
            held_bytes=_held(run, known.get(usage.index, {}).get("card")),
            rows=rows_of(usage, names, first_step_ns=began),
        )
        for usage in run.tape.usages
    }
    for index, device in known.items():
        card, limit = device.get("card"), device["limit_bytes"]
        idle = DeviceReport(index, card, limit, 0, _held(run, card), ())
        reports.setdefault(index, idle)
    return tuple(reports[index] for index in sorted(reports))


def _held(run: RunResult, card: int | None) -> int | None:
    """The most that the run's processes held on a card."""
    return max((held.size_bytes for held in run.held if held.card == (card or 0)), default=None)


def tightest(devices: Sequence[DeviceReport]) -> DeviceReport | None:
    """The device that was nearest to its limit."""
    return max(devices, key=lambda each: each.peak_bytes / max(each.limit_bytes, 1), default=None)
