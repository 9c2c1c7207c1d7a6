"""``TF_BFC_MEMORY_DUMP`` files: the allocator's state at a failed request, as protobuf -> Dump."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gpuconf.errors import GpuconfError
from gpuconf.support.failures.facts.dump import Chunks, Dump, OperationBytes
from gpuconf.support.protobuf_wire import Value, WireError, fields, signed, text

# The fields read from each message of TensorFlow's bfc_memory_map.proto.
FIELDS = {
    "MemoryDump": {1: "allocator_name", 3: "chunk", 5: "stats"},
    "MemChunk": {2: "size", 5: "op_name", 8: "in_use"},
    "MemAllocatorStats": {2: "bytes_in_use", 3: "peak_bytes_in_use"},
}
# The tag bytes of MemoryDump's fields: number * 8 + 2, for length-delimited fields.
_TAGS = tuple(number << 3 | 2 for number in range(1, 6))
_NAMELESS = "(no name)"


class _Chunk(NamedTuple):
    size: int
    operation: str
    is_in_use: bool


def looks_like_memory_map(start: bytes) -> bool:
    """Whether a file starts like a dump: an allocator's name, then another field.

    0x0A, the tag of the name, is also a newline, and 9, the length of GPU_0_bfc, is also a tab.
    The byte after the name distinguishes a dump from a log that begins with an empty line and an
    indented Traceback.
    """
    if len(start) < 4 or start[0] != _TAGS[0] or not 3 <= start[1] < 64:
        return False
    name, behind = start[2 : 2 + start[1]], start[2 + start[1] :]
    is_name = name.replace(b"_", b"").isalnum() and len(name) == start[1]
    return is_name and (not behind or behind[0] in _TAGS[1:])


def read_memory_map(data: bytes) -> Dump:
    """Parse a file written by TF_BFC_MEMORY_DUMP; GpuconfError if it is not one."""
    chunks: list[_Chunk] = []
    allocator, stats = "", {}
    try:
        for number, value in fields(memoryview(data)):
            name = FIELDS["MemoryDump"].get(number)
            if name is None or isinstance(value, int):
                continue
            if name == "allocator_name":
                allocator = text(value)
            elif name == "chunk":
                chunks.append(_chunk(_named(value, "MemChunk")))
            else:
                stats = _named(value, "MemAllocatorStats")
    except WireError as error:
        raise _no_dump(str(error)) from error
    in_use_bytes = _number(stats, "bytes_in_use")
    if any(chunk.size < 0 for chunk in chunks) or in_use_bytes < 0:
        raise _no_dump("it has sizes below zero")
    if not chunks:
        raise _no_dump("it has no chunks")
    used = Counter(chunk.size for chunk in chunks if chunk.is_in_use)
    held: Counter[str] = Counter()
    for chunk in chunks:
        if chunk.is_in_use:
            held[chunk.operation] += chunk.size
    return Dump(
        0,
        allocator=allocator,
        limit_bytes=sum(chunk.size for chunk in chunks),
        in_use_bytes=in_use_bytes,
        peak_bytes=_number(stats, "peak_bytes_in_use"),
        in_use=tuple(Chunks(size, count) for size, count in sorted(used.items())),
        free_chunks=tuple(chunk.size for chunk in chunks if not chunk.is_in_use),
        by_operation=_by_operation(held),
    )


def _by_operation(held: Counter[str]) -> tuple[OperationBytes, ...]:
    """The memory of each operation, largest first; empty if no chunk has a name."""
    if not set(held) - {_NAMELESS}:
        return ()
    return tuple(OperationBytes(*each) for each in held.most_common())


def _named(message: memoryview, kind: str) -> dict[str, Value]:
    """The known fields of a message, by name; if a field occurs twice, the last one."""
    names = FIELDS[kind]
    return {names[number]: value for number, value in fields(message) if number in names}


def _number(found: dict[str, Value], name: str) -> int:
    value = found.get(name, 0)
    return signed(value) if isinstance(value, int) else 0


def _chunk(found: dict[str, Value]) -> _Chunk:
    operation = found.get("op_name", 0)
    name = "" if isinstance(operation, int) else text(operation)
    return _Chunk(_number(found, "size"), name or _NAMELESS, _number(found, "in_use") != 0)


def _no_dump(reason: str) -> GpuconfError:
    return GpuconfError(
        f"this is not a dump of TF_BFC_MEMORY_DUMP, or a part of one: {reason}",
        hint="run with TF_BFC_MEMORY_DUMP=/tmp/dump, and give the file that then appears",
    )
