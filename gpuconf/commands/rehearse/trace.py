"""Interpret the memory events: bytes in use over time, the peak, and the allocations at the peak.

Pure except for reading the files.  Times are nanoseconds since the epoch, as accurate as the
agent's clock when its tape began. Sizes are in the allocator's bytes: it rounds each allocation up
to a multiple of 256 and sometimes returns a larger chunk than requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.commands.rehearse.agent.memory import MARK
from gpuconf.support.reporting.thinning import thinned
from gpuconf.support.xplane import Event, TraceError, read_events

ALLOCATION, DEALLOCATION = "MemoryAllocation", "MemoryDeallocation"
# Allocators of TensorFlow's GPU devices, and of its CPU device if it replaces one (tests).
_ALLOCATORS = ("GPU_", "bfc_cpu_allocator_for_gpu")
PHASE, CELL = "phase ", "cell "  # prefixes of marks; a number follows
_EARLIEST_EPOCH_NS = 10**18  # smaller times count from the start of the tape
_MOST_POINTS = 4000


class TracedAllocation(NamedTuple):
    """An allocation in use: ``size_bytes`` for a request of ``asked_bytes``, and its operation.

    ``is_workspace`` means that the operation uses the memory only internally and frees it when it
    ends.
    """

    time_ns: int
    size_bytes: int
    asked_bytes: int
    op: str | None
    shape: str | None
    is_workspace: bool


class Point(NamedTuple):
    """Bytes in use from this moment on."""

    time_ns: int
    size_bytes: int


class Usage(NamedTuple):
    """The history of one allocator.  ``index`` is TensorFlow's number for its GPU device.

    ``limit_bytes`` is the allocator's total limit, which it reports with every event.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    limit_bytes: int
    peak_bytes: int
    peak_time_ns: int
    series: tuple[Point, ...]
    live_at_peak: tuple[TracedAllocation, ...]
    phase_peaks: tuple[tuple[int, int], ...] = ()  # (the phase's number, its peak)
    cell_peaks: tuple[tuple[int, int], ...] = ()  # the same for a notebook's cells


class TapeMark(NamedTuple):
    """A mark that the agent put on the tape."""

    time_ns: int
    text: str


class Tape(NamedTuple):
    """The contents of a process's tapes, by allocator; ``is_whole`` unless one was lost."""

    usages: tuple[Usage, ...] = ()
    marks: tuple[TapeMark, ...] = ()
    is_whole: bool = True


def read_tapes(tapes: Iterable[dict[str, Any]]) -> Tape | None:
    """Read the trace files named in the agent's report; None if there are none."""
    events: list[Event] = []
    is_whole = True
    paths = []
    for tape in tapes:
        found = sorted(Path(tape["folder"]).rglob("*.xplane.pb"))
        is_whole = is_whole and bool(tape["whole"]) and bool(found)
        paths += [(path, int(tape["began_ns"])) for path in found]
    for path, began_ns in paths:
        try:
            found_events = read_events(path.read_bytes(), (ALLOCATION, DEALLOCATION), prefix=MARK)
        except (OSError, TraceError):
            is_whole = False
            continue
        events += [_at_epoch(event, began_ns) for event in found_events]
    return tape_of(events, is_whole=is_whole) if paths else None


def tape_of(events: Sequence[Event], *, is_whole: bool = True) -> Tape:
    """Replay events, which must be ordered by time."""
    by_allocator: dict[str, list[Event]] = {}
    marks = []
    for event in events:
        if event.name.startswith(MARK):
            marks.append(TapeMark(event.time_ns, event.name.removeprefix(MARK)))
            continue
        name = str(event.stats.get("allocator_name", ""))
        if name.startswith(_ALLOCATORS):
            by_allocator.setdefault(name, []).append(event)
    usages = [_usage(name, found, marks) for name, found in by_allocator.items()]
    return Tape(tuple(sorted(usages)), tuple(marks), is_whole)


def _usage(allocator: str, events: Sequence[Event], marks: Sequence[TapeMark]) -> Usage:
    """Make two passes: the first finds the peak, the second the allocations live at that moment."""
    series = [Point(event.time_ns, _number(event, "bytes_allocated")) for event in events]
    peak = max(range(len(series)), key=lambda place: series[place].size_bytes)
    live: dict[int, TracedAllocation] = {}
    for event in events[: peak + 1]:
        address = _number(event, "addr")
        if event.name == ALLOCATION:
            live[address] = _allocation(event)
        else:
            live.pop(address, None)
    said = max(_number(event, "peak_bytes_in_use") for event in events)
    last = events[-1]
    return Usage(
        index=int(allocator.split("_")[1]) if allocator.startswith("GPU_") else 0,
        limit_bytes=_number(last, "bytes_allocated") + _number(last, "bytes_available"),
        peak_bytes=max(said, series[peak].size_bytes),
        peak_time_ns=series[peak].time_ns,
        series=_thinned(series),
        live_at_peak=tuple(sorted(live.values(), key=lambda each: -each.size_bytes)),
        phase_peaks=_peaks(series, marks, PHASE),
        cell_peaks=_peaks(series, marks, CELL),
    )


def _peaks(
    series: Sequence[Point], marks: Sequence[TapeMark], kind: str
) -> tuple[tuple[int, int], ...]:
    """The peak in each phase or cell, including the memory in use at its start.

    Before the first mark, the number is 0.
    """
    switches = [
        (mark.time_ns, int(number))
        for mark in marks
        if (number := mark.text.removeprefix(kind)) != mark.text
    ]
    peaks: dict[int, int] = {}
    phase, in_use, place = 0, 0, 0
    for point in series:
        while place < len(switches) and switches[place][0] <= point.time_ns:
            phase = switches[place][1]
            peaks[phase] = max(peaks.get(phase, 0), in_use)
            place += 1
        in_use = point.size_bytes
        peaks[phase] = max(peaks.get(phase, 0), in_use)
    for _, phase in switches[place:]:
        peaks[phase] = max(peaks.get(phase, 0), in_use)
    return tuple(sorted(peaks.items()))


def _thinned(series: Sequence[Point]) -> tuple[Point, ...]:
    """The points that a plot could show, and the very last one."""
    places = thinned([point.size_bytes for point in series], _MOST_POINTS)
    return tuple(series[place] for place in sorted({*places, len(series) - 1}))


def _allocation(event: Event) -> TracedAllocation:
    stats = event.stats
    return TracedAllocation(
        time_ns=event.time_ns,
        size_bytes=_number(event, "allocation_bytes"),
        asked_bytes=_number(event, "requested_bytes"),
        op=_text(stats.get("tf_op")),
        shape=_text(stats.get("shape", stats.get("tensor_shapes"))),
        is_workspace=stats.get("region_type") == "temp",
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", "(null)") else None


def _number(event: Event, name: str) -> int:
    value = event.stats.get(name, 0)
    return int(value) if isinstance(value, int | float) else 0


def _at_epoch(event: Event, began_ns: int) -> Event:
    if event.time_ns > _EARLIEST_EPOCH_NS:
        return event
    return event._replace(time_ns=began_ns + event.time_ns)
