"""Protobuf's wire format: the fields of a message as they are on disk.

This does not use protobuf, for three reasons: TensorFlow's generated modules move between its
versions, gpuconf's Python may not have TensorFlow at all, and fields that are not requested are
skipped without being decoded.
"""

from __future__ import annotations

from collections.abc import Iterator

Value = int | memoryview
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are not a complete message."""


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message: the field number, and an int for a varint or else the bytes.

    Raises WireError if the message is truncated or is not a message.
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
        raise WireError("cut off") from None
    raise WireError("a number of more than 64 bits")


def signed(value: int) -> int:
    """Return the int64 that this varint encodes."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value


def text(raw: memoryview) -> str:
    """Decode the bytes of a string field."""
    return bytes(raw).decode("utf-8", "replace")
