"""``TF_BFC_MEMORY_DUMP`` files: the allocator's state at its refusal, as protobuf -> Dump.

The messages are those of TensorFlow's bfc_memory_map.proto, described here field by field, so that
a dump can be read where TensorFlow is not installed.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from gpuconf.errors import GpuconfError, MissingDependencyError
from gpuconf.messages.facts.dump import Chunks, Dump

_INT64, _UINT64, _INT32, _BOOL, _STRING, _FLOAT, _MESSAGE = 3, 4, 5, 8, 9, 2, 11
_REPEATED, _OPTIONAL = 3, 1
# The bytes before the fields of a MemoryDump: number * 8 + 2, for what has a length.
_TAGS = tuple(number << 3 | 2 for number in range(1, 6))
_NAMELESS = "(no name)"
# Of each message: field, number, type, and the message it holds many or one of.
_MESSAGES: dict[str, tuple[tuple[str, int, int, str, int], ...]] = {
    "MemAllocatorStats": (
        ("num_allocs", 1, _INT64, "", _OPTIONAL),
        ("bytes_in_use", 2, _INT64, "", _OPTIONAL),
        ("peak_bytes_in_use", 3, _INT64, "", _OPTIONAL),
        ("largest_alloc_size", 4, _INT64, "", _OPTIONAL),
        ("fragmentation_metric", 5, _FLOAT, "", _OPTIONAL),
    ),
    "MemChunk": (
        ("address", 1, _UINT64, "", _OPTIONAL),
        ("size", 2, _INT64, "", _OPTIONAL),
        ("requested_size", 3, _INT64, "", _OPTIONAL),
        ("bin", 4, _INT32, "", _OPTIONAL),
        ("op_name", 5, _STRING, "", _OPTIONAL),
        ("freed_at_count", 6, _UINT64, "", _OPTIONAL),
        ("action_count", 7, _UINT64, "", _OPTIONAL),
        ("in_use", 8, _BOOL, "", _OPTIONAL),
        ("step_id", 9, _UINT64, "", _OPTIONAL),
    ),
    "BinSummary": (
        ("bin", 1, _INT32, "", _OPTIONAL),
        ("total_bytes_in_use", 2, _INT64, "", _OPTIONAL),
        ("total_bytes_in_bin", 3, _INT64, "", _OPTIONAL),
        ("total_chunks_in_use", 4, _INT64, "", _OPTIONAL),
        ("total_chunks_in_bin", 5, _INT64, "", _OPTIONAL),
    ),
    "SnapShot": (
        ("action_count", 1, _UINT64, "", _OPTIONAL),
        ("size", 2, _INT64, "", _OPTIONAL),
    ),
    "MemoryDump": (
        ("allocator_name", 1, _STRING, "", _OPTIONAL),
        ("bin_summary", 2, _MESSAGE, "BinSummary", _REPEATED),
        ("chunk", 3, _MESSAGE, "MemChunk", _REPEATED),
        ("snap_shot", 4, _MESSAGE, "SnapShot", _REPEATED),
        ("stats", 5, _MESSAGE, "MemAllocatorStats", _OPTIONAL),
    ),
}  # fmt: skip


def looks_like_memory_map(start: bytes) -> bool:
    """Whether a file's first bytes are those of a dump: an allocator's name, and another field.

    0x0A, the name's tag, is also a newline, and 9, the length of GPU_0_bfc, a tab: what follows
    the name tells a dump from the log that begins with an empty line and an indented Traceback.
    """
    if len(start) < 4 or start[0] != _TAGS[0] or not 3 <= start[1] < 64:
        return False
    name, behind = start[2 : 2 + start[1]], start[2 + start[1] :]
    is_name = name.replace(b"_", b"").isalnum() and len(name) == start[1]
    return is_name and (not behind or behind[0] in _TAGS[1:])


def read_memory_map(data: bytes) -> Dump:
    """The dump in a file that TF_BFC_MEMORY_DUMP wrote.

    Raises GpuconfError for bytes that are none, MissingDependencyError without protobuf.
    """
    message = _message_class()()
    try:
        message.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, of whichever implementation
        raise _no_dump(str(error)) from error
    if any(chunk.size < 0 for chunk in message.chunk) or message.stats.bytes_in_use < 0:
        raise _no_dump("it has sizes below zero")
    if not message.chunk:
        raise _no_dump("it has no chunks")
    used: Counter[int] = Counter()
    held: Counter[str] = Counter()
    for chunk in message.chunk:
        if chunk.in_use:
            used[chunk.size] += 1
            held[chunk.op_name or _NAMELESS] += chunk.size
    return Dump(
        0,
        allocator=message.allocator_name,
        limit_bytes=sum(chunk.size for chunk in message.chunk),
        in_use_bytes=message.stats.bytes_in_use,
        peak_bytes=message.stats.peak_bytes_in_use,
        in_use=tuple(Chunks(size, count) for size, count in sorted(used.items())),
        free_chunks=tuple(chunk.size for chunk in message.chunk if not chunk.in_use),
        by_operation=tuple(held.most_common()) if set(held) - {_NAMELESS} else (),
    )


def _no_dump(reason: str) -> GpuconfError:
    return GpuconfError(
        f"this is no dump of TF_BFC_MEMORY_DUMP, or a part of one: {reason}",
        hint="run with TF_BFC_MEMORY_DUMP=/tmp/dump, and give the file that then appears",
    )


def _message_class() -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingDependencyError(
            "a dump of TF_BFC_MEMORY_DUMP is read with protobuf, which is not installed",
            hint="pip install 'gpuconf[dump]'",
        ) from error
    file = descriptor_pb2.FileDescriptorProto(
        name="gpuconf/bfc_memory_map.proto", package="gpuconf", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for field, number, kind, held, label in fields:
            added = described.field.add(name=field, number=number, type=kind, label=label)
            if held:
                added.type_name = f".gpuconf.{held}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("gpuconf.MemoryDump"))
