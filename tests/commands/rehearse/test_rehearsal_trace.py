"""From bytes of a trace file to bytes of memory: the wire format, the replay, the thinning."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.commands.rehearse.trace import Point, TracedAllocation, tape_of
from gpuconf.support.xplane import Event, TraceError, read_events


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _entry(number: int, key: int, name: str) -> bytes:
    return _field(number, _field(1, key) + _field(2, _field(1, key) + _field(2, name.encode())))


def _stat(key: int, value: int | float | str) -> bytes:
    if isinstance(value, float):
        return _field(4, _field(1, key) + _varint(2 << 3 | 1) + struct.pack("<d", value))
    if isinstance(value, str):
        return _field(4, _field(1, key) + _field(5, value.encode()))
    return _field(4, _field(1, key) + _field(4, value & (1 << 64) - 1))


def write(events: list[Event], *, start_ns: int = 0) -> bytes:
    """An XSpace with one plane and one line, as TensorFlow writes it."""
    names = sorted({event.name for event in events})
    stats = sorted({name for event in events for name in event.stats})
    line = _field(3, start_ns)
    for event in events:
        line += _field(
            4,
            _field(1, names.index(event.name) + 1)
            + _field(2, (event.time_ns - start_ns) * 1000)
            + _field(3, 20_000)  # its duration, which nobody needs
            + b"".join(_stat(stats.index(k) + 1, v) for k, v in event.stats.items()),
        )
    plane = _field(2, b"/host:CPU") + _field(3, line)
    plane += b"".join(_entry(4, place + 1, name) for place, name in enumerate(names))
    plane += b"".join(_entry(5, place + 1, name) for place, name in enumerate(stats))
    return _field(1, plane)


def memory(time_ns: int, address: int, size: int, in_use: int, *, frees: bool = False) -> Event:
    """A memory event of the first GPU's allocator, whose limit is 1000."""
    stats: dict[str, int | float | str] = {
        "allocator_name": "GPU_0_bfc",
        "addr": address,
        "allocation_bytes": size,
        "requested_bytes": size,
        "bytes_allocated": in_use,
        "bytes_available": 1000 - in_use,
        "peak_bytes_in_use": in_use,
        "tf_op": f"op{address}",
    }
    return Event("MemoryDeallocation" if frees else "MemoryAllocation", time_ns, stats)


def test_what_is_written_is_read() -> None:
    """Names, times and every kind of statistic come back; what is not wanted does not."""
    known = Event("Known", 1500, {"text": "a/b", "size": 1 << 40, "below": -7, "share": 0.25})
    data = write([known, Event("Other", 1600, {}), Event("mark: x", 1400, {})], start_ns=1000)
    events = read_events(data, ("Known",), prefix="mark: ")
    assert [event.name for event in events] == ["mark: x", "Known"]
    assert events[1] == known


@given(st.data())
def test_a_file_that_is_cut_off_is_refused_or_shorter(data: st.DataObject) -> None:
    """No cut makes it raise anything but TraceError, or tell of an event that was not there."""
    events = [Event("Known", time, {"addr": time}) for time in (5, 6, 7)]
    whole = write(events)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        found = read_events(cut, ("Known",))
    except TraceError:
        return
    assert {event.time_ns for event in found} <= {5, 6, 7}


@given(st.binary(max_size=200))
def test_any_bytes_are_a_trace_or_refused(data: bytes) -> None:
    """Garbage is TraceError, never another exception and never a hang."""
    with contextlib.suppress(TraceError):
        assert isinstance(read_events(data, ("Known",)), list)


def test_the_peak_and_what_was_live() -> None:
    """Freed memory is not live at the peak; an address may be used again; the limit is told."""
    tape = tape_of(
        [
            memory(1, 10, 100, 100),
            memory(2, 20, 300, 400),
            memory(3, 10, 100, 300, frees=True),
            memory(4, 10, 250, 550),
            memory(5, 20, 300, 250, frees=True),
            Event("gpuconf mark: step 1", 2, {}),
            Event("MemoryAllocation", 9, {"allocator_name": "gpu_host_bfc"}),
        ]
    )
    (usage,) = tape.usages
    assert (usage.index, usage.limit_bytes, usage.peak_bytes) == (0, 1000, 550)
    assert usage.peak_time_ns == 4
    assert [(each.op, each.size_bytes) for each in usage.live_at_peak] == [
        ("op20", 300),
        ("op10", 250),
    ]
    assert [mark.text for mark in tape.marks] == ["step 1"]


def test_a_peak_between_events_is_told_by_the_allocator() -> None:
    """What was in use while the tape was changed is in the allocator's own figure."""
    event = memory(1, 10, 100, 100)
    event.stats["peak_bytes_in_use"] = 700
    assert tape_of([event]).usages[0].peak_bytes == 700


def test_a_long_series_is_thinned() -> None:
    """The highest and the very last point stay, in the order of time."""
    sizes = [900 if time == 5000 else time % 7 for time in range(20_000)]
    (usage,) = tape_of([memory(time, 1, size, size) for time, size in enumerate(sizes)]).usages
    assert max(point.size_bytes for point in usage.series) == 900
    assert usage.series[-1] == Point(19_999, sizes[-1])
    assert list(usage.series) == sorted(set(usage.series))
    assert len(usage.series) <= 4001


@pytest.mark.parametrize(("region", "is_workspace"), [("temp", True), ("output", False)])
def test_workspaces_are_told_from_results(region: str, is_workspace: bool) -> None:
    """`region_type` says so, and `(null)`, which TensorFlow 2.15 writes, is unknown."""
    event = memory(1, 10, 100, 100)
    event.stats.update(region_type=region, tf_op="(null)", shape="[2,3]")
    (live,) = tape_of([event]).usages[0].live_at_peak
    assert live == TracedAllocation(1, 100, 100, None, "[2,3]", is_workspace)
