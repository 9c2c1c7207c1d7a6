"""What a run's trace says of each GPU device of TensorFlow.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.rehearsal.breakdown import Row, first_step_ns, names_of, rows_of
from gpuconf.rehearsal.runs import RunResult


class DeviceReport(NamedTuple):
    """One GPU device of TensorFlow: its limit, and in bytes what the program made of it.

    ``card`` is the number of the simulated card it is on, None if unknown; ``held_bytes`` is
    what the processes held on that card at most, all its devices and contexts together.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    card: int | None
    limit_bytes: int
    peak_bytes: int
    held_bytes: int | None
    rows: tuple[Row, ...]

    @property
    def head_room_bytes(self) -> int:
        """What was left of the limit at the peak."""
        return self.limit_bytes - self.peak_bytes


def devices_of(run: RunResult) -> tuple[DeviceReport, ...]:
    """Each GPU device that the run's trace knows."""
    if run.tape is None:
        return ()
    known = {device["index"]: device for device in run.trainer.get("devices", ())}
    names, began = names_of(run.trainer), first_step_ns(run.tape)
    reports = []
    for usage in run.tape.usages:
        card = known.get(usage.index, {}).get("card")
        held = [held.size_bytes for held in run.held if held.card == (card or 0)]
        reports.append(
            DeviceReport(
                index=usage.index,
                card=card,
                limit_bytes=usage.limit_bytes,
                peak_bytes=usage.peak_bytes,
                held_bytes=max(held, default=None),
                rows=rows_of(usage, names, first_step_ns=began),
            )
        )
    return tuple(reports)


def tightest(devices: Sequence[DeviceReport]) -> DeviceReport | None:
    """The device that was nearest to its limit."""
    return max(devices, key=lambda each: each.peak_bytes / max(each.limit_bytes, 1), default=None)
