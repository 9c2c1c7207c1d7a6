"""Read memory events from the trace files (``*.xplane.pb``) of TensorFlow's own profiler.

The message is XSpace from ``tsl/profiler/protobuf/xplane.proto``, whose field numbers have not
changed since 2020. It is read from protobuf's wire format, without protobuf and TensorFlow's
generated ``xplane_pb2``: importing that imports all of TensorFlow (5 s, 800 MB), and gpuconf's
Python may have neither.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

Value = int | float | str
Field = int | memoryview
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Event(NamedTuple):
    """One event: its name, its time, and its statistics by name.

    ``time_ns`` counts from the start of the profile, as in TensorFlow's file.
    """

    name: str
    time_ns: int
    stats: dict[str, Value]


class TraceError(ValueError):
    """An incomplete trace file, as left by a process that was killed while writing it."""


def read_events(data: bytes, wanted: Collection[str], *, prefix: str = "\0") -> list[Event]:
    """The events in ``data`` whose name is in ``wanted`` or begins with ``prefix``, in time order.

    Raises TraceError for bytes that are truncated or not a trace.
    """
    view = memoryview(data)
    try:
        events = [
            event
            for number, plane in _fields(view)
            if number == 1 and isinstance(plane, memoryview)
            for event in _plane_events(plane, wanted, prefix)
        ]
    except (ValueError, struct.error) as error:
        raise TraceError(f"not a complete trace file: {error}") from error
    return sorted(events, key=lambda event: event.time_ns)


def _plane_events(plane: memoryview, wanted: Collection[str], prefix: str) -> Iterator[Event]:
    lines, events, stats = [], {}, {}
    for number, value in _fields(plane):
        if not isinstance(value, memoryview):
            continue
        if number == 3:
            lines.append(value)
        elif number == 4:
            identity, name = _metadata(value)
            if name in wanted or name.startswith(prefix):
                events[identity] = name
        elif number == 5:
            identity, name = _metadata(value)
            stats[identity] = name
    if events:
        for line in lines:
            yield from _line_events(line, events, stats)


def _metadata(entry: memoryview) -> tuple[int, str]:
    """An entry of the maps ``event_metadata`` and ``stat_metadata``: (id, name)."""
    key, name = 0, ""
    for number, value in _fields(entry):
        if number == 1 and isinstance(value, int):
            key = value
        elif number == 2 and isinstance(value, memoryview):
            for inner, raw in _fields(value):
                if inner == 2 and isinstance(raw, memoryview):
                    name = _text(raw)
    return key, name


def _line_events(line: memoryview, names: dict[int, str], stats: dict[int, str]) -> Iterator[Event]:
    start_ns = 0
    found = []
    for number, value in _fields(line):
        if number == 3 and isinstance(value, int):
            start_ns = value
        elif number == 4 and isinstance(value, memoryview):
            found.append(value)
    for event in found:
        # The name's number is the first field, so most events are skipped here.
        name = names.get(_varint(event, 1)[0]) if len(event) > 1 and event[0] == 0x08 else None
        if name is not None:
            yield _event(event, name, start_ns, stats)


def _event(event: memoryview, name: str, start_ns: int, stats: dict[int, str]) -> Event:
    offset_ps = 0
    known: dict[str, Value] = {}
    for number, value in _fields(event):
        if number == 2 and isinstance(value, int):
            offset_ps = value
        elif number == 4 and isinstance(value, memoryview):
            key, stat = _stat(value, stats)
            known[key] = stat
    return Event(name, start_ns + offset_ps // 1000, known)


def _stat(stat: memoryview, names: dict[int, str]) -> tuple[str, Value]:
    key, found = "", 0
    for number, value in _fields(stat):
        if number == 1 and isinstance(value, int):
            key = names.get(value, "")
        elif number == 2 and isinstance(value, memoryview):
            return key, float(struct.unpack("<d", value)[0])
        elif number == 5 and isinstance(value, memoryview):
            return key, _text(value)
        elif number == 4 and isinstance(value, int):
            found = _signed(value)
        elif number == 7 and isinstance(value, int):  # text that is stored once, as a name
            return key, names.get(value, "")
        elif isinstance(value, int):
            found = value
    return key, found


# --- protobuf's wire format ---------------------------------------------------------------------


def _fields(message: memoryview) -> Iterator[tuple[int, Field]]:
    """Yield the fields of a message: the field number, and an int for a varint or else the bytes.

    Raises ValueError if the data is truncated or is not a message.
    """
    place, end = 0, len(message)
    while place < end:
        tag, place = _varint(message, place)
        kind = tag & 7
        if kind == _VARINT:
            value, place = _varint(message, place)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, place = _varint(message, place)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if place + size > end:
            raise ValueError("cut off")
        yield tag >> 3, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Return the unsigned number that begins at ``place``, and the position after it."""
    value = shift = 0
    try:
        while shift < 70:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, place
            shift += 7
    except IndexError:
        raise ValueError("cut off") from None
    raise ValueError("a number of more than 64 bits")


def _signed(value: int) -> int:
    """Return the int64 that this varint encodes."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value


def _text(raw: memoryview) -> str:
    """Decode the bytes of a string field."""
    return bytes(raw).decode("utf-8", "replace")
