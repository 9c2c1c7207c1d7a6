"""The tables of a rehearsal's report: phases, devices, and the memory at the peak.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconf.basics.units import MIB, mib_figures, sized
from gpuconf.commands.rehearse.breakdown import DeviceReport, Row
from gpuconf.commands.rehearse.phases import COMPUTING, RanPhase, failed_phase
from gpuconf.support.reporting.lines import Table

_MOST_ROWS = 8
_SMALLEST_ROW_BYTES = MIB // 20  # smaller ones would show as 0.0
# TensorFlow's names for operations that appear in no line of a script.
_WORDS = {
    "SameWorkerRecvDone": "copy between devices",
    "_EagerConst": "data and constants from Python",
    "ScratchBuffer": "scratch memory of the device",
}


def phase_table(phases: Sequence[RanPhase], failed_sign: str) -> Table | None:
    """The phases in order; the largest peak is marked, or the failed phase."""
    shown = [each for each in phases if each.peak_bytes or each.steps or each.error]
    if not any(each.kind in COMPUTING for each in shown):
        return None
    failed = failed_phase(shown)
    most = max(shown, key=_fullness)
    marked = failed or most
    shown = [each for each in shown if _is_worth_a_row(each, _fullness(most))]
    rows = []
    for each in shown:
        of = "" if each.of is None else f" of {each.of}"
        peak = "unknown" if each.peak_bytes is None else sized(each.peak_bytes)
        share = f"{_fullness(each):.0%}" if each.peak_bytes is not None else ""
        sign = failed_sign if failed else "the peak"
        mark = f" ← {sign}" if each is marked and (failed or len(shown) > 1) else ""
        rows.append(
            (
                each.what,
                each.where or "",
                "" if each.batch is None else str(each.batch),
                f"{each.steps}{of}" if each.steps else "",
                peak,
                f"{share}{mark}",
            )
        )
    return Table(("", "line", "batch", "steps", "peak in use", "of the limit"), rows)


def _is_worth_a_row(phase: RanPhase, most: float) -> bool:
    """Whether a phase computed, or used more than a small part of the highest peak."""
    return phase.kind in COMPUTING or bool(phase.error) or _fullness(phase) > most / 10


def _fullness(phase: RanPhase) -> float:
    return (phase.peak_bytes or 0) / max(phase.limit_bytes or 0, 1)


def device_table(devices: Sequence[DeviceReport]) -> Table:
    """The limit and the memory use of each device."""
    columns = ("", "may take", "peak in use", "headroom", "held on the GPU, with the context")
    rows: list[tuple[str, ...]] = []
    for device in devices:
        on = f" on GPU {device.card}" if device.card not in (None, device.index) else ""
        held = "unknown" if device.held_bytes is None else sized(device.held_bytes)
        rows.append(
            (
                f"GPU {device.index}{on}",
                sized(device.limit_bytes),
                sized(device.peak_bytes),
                sized(device.head_room_bytes),
                held,
            )
        )
    return Table(columns, rows)


def row_table(device: DeviceReport) -> Table:
    """The memory at a device's peak: the largest parts, and the rest in one row."""
    shown = [row for row in device.rows[:_MOST_ROWS] if row.size_bytes >= _SMALLEST_ROW_BYTES]
    rest = device.rows[len(shown) :]
    *figures, rest_figure = mib_figures(
        [*(row.size_bytes for row in shown), sum(row.size_bytes for row in rest)]
    )
    rows = [(size, *_row_words(row)) for size, row in zip(figures, shown, strict=True)]
    if rest:
        pieces = sum(row.pieces for row in rest)
        rows.append((rest_figure, f"{pieces} smaller pieces", "", "", ""))
    return Table(("MiB", "what for", "layer", "operation", "shape"), rows)


def _row_words(row: Row) -> tuple[str, str, str, str]:
    op = _WORDS.get(row.op or "", row.op or "")
    if row.is_workspace:
        op += " (workspace)"
    shape = (row.shape or "").strip("[]").replace(",", " × ")
    if not shape:
        return row.what, row.layer or "", op, f"{row.pieces} pieces" if row.pieces > 1 else ""
    more = f" and {row.pieces - 1} more" if row.pieces > 1 else ""
    return row.what, row.layer or "", op, f"{shape}{more}"
