"""Protobuf's wire format: the fields of a message as they are on disk.

Read without protobuf, for three reasons: TensorFlow's generated modules move between its
versions, gpuconf's Python need not have TensorFlow at all, and fields that are not asked for
are skipped without being decoded.
"""

from __future__ import annotations

from collections.abc import Iterator

Value = int | memoryview
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """Bytes that are not a whole message."""


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """The fields of a message: its number, and an int for a varint, else its bytes.

    Raises WireError where the message is cut off or is something else.
    """
    place, end = 0, len(message)
    while place < end:
        tag, place = varint(message, place)
        kind = tag & 7
        if kind == _VARINT:
            value, place = varint(message, place)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, place = varint(message, place)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise WireError(f"wire type {kind}")
        if place + size > end:
            raise WireError("cut off")
        yield tag >> 3, message[place : place + size]
        place += size


def varint(message: memoryview, place: int) -> tuple[int, int]:
    """The unsigned number that begins at ``place``, and where it ends."""
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
        raise WireError("cut off") from None
    raise WireError("a number of more than 64 bits")


def signed(value: int) -> int:
    """The int64 that was written as this varint."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value


def text(raw: memoryview) -> str:
    """The bytes of a string field as text."""
    return bytes(raw).decode("utf-8", "replace")
