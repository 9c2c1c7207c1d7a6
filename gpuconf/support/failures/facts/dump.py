"""The dump of TensorFlow's BFC allocator in a log: its state when an allocation failed.

The lines are printed by bfc_allocator.cc, TensorFlow 1.0 to 2.21. A chunk's line gives its size,
and the operation that requested it if the allocator knew it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

from gpuconf.basics.json_shape import Bytes, Count, FieldRule, json_shape
from gpuconf.support.failures.facts.tensor import logged_size
from gpuconf.support.failures.log.encodings import decoded

_STAT = re.compile(
    r"^\s*(Limit|InUse|MaxInUse|NumAllocs|MaxAllocSize):\s+(\d[\d.]{0,20})([KMGT]?i?B)?\s*$"
)
_IN_USE = re.compile(
    r"(?:InUse|Chunk) at (?:0x)?[0-9a-f]{1,16} of size (\d{1,19})(?: by op (\S{1,500}))?"
)
_FREE = re.compile(r"Free {1,9}at (?:0x)?[0-9a-f]{1,16} of size (\d{1,19})")
_GROUP = re.compile(r"(\d{1,19}) Chunks of size (\d{1,19}) totalling")
_SUM = re.compile(r"Sum Total of in-use chunks: (\d[\d.]{0,20}[KMGT]?i?B)")
_POOL = re.compile(
    r"(?:total_region_allocated_bytes_|Total (?:bytes|size) in pool): \S{1,40} "
    r"memory_limit_: (\d[\d.]{0,20}(?:[KMGT]?i?B)?) "
    r"available (?:bytes|size): (\d[\d.]{0,20}(?:[KMGT]?i?B)?)"
)
_REFUSED = re.compile(
    r"Allocator \(?(\w{1,80})\)? ran out of memory trying to allocate (\d[\d.]{0,20}[KMGT]?i?B)"
    r"(?: \(rounded to (\d{1,19})\))?"
)
_ASKED = re.compile(r"Bin for (\d[\d.]{0,20}[KMGT]?i?B) was")
_MAP = re.compile(r"\] ([*_x]{80,120})\s{0,9}$")
_START = re.compile(rb"BFCAllocator dump for|Bin \(256\):")
# More chunks than this add no information.
_MOST_LINES = 100_000


class Chunks(NamedTuple):
    """``number`` chunks in use, each of ``size_bytes``."""

    size_bytes: Bytes
    """The size of each chunk."""
    number: Count
    """The number of chunks."""

    @property
    def total_bytes(self) -> int:
        """Their total size."""
        return self.size_bytes * self.number


class OperationBytes(NamedTuple):
    """The total size of an operation's chunks."""

    operation: str
    """The operation's name."""
    size_bytes: Bytes
    """The total size of its chunks."""


@json_shape(computed=("free_bytes", "largest_free_bytes", "is_fragmented"))
class Dump(NamedTuple):
    """An allocator's state, in bytes; None if the log does not state it."""

    line: Count
    """The log line where it begins, from 1; 0 if it does not come from a log."""
    allocator: str | None = None
    """For example GPU_0_bfc."""
    requested_bytes: Bytes | None = None
    """The requested size, rounded up as the allocator does."""
    limit_bytes: Bytes | None = None
    """The allocator's limit."""
    in_use_bytes: Bytes | None = None
    """The memory in use."""
    peak_bytes: Bytes | None = None
    """The peak memory in use."""
    in_use: tuple[Chunks, ...] = ()
    """The chunks in use, by size."""
    free_chunks: tuple[Bytes, ...] | None = None
    """The sizes of the free chunks in the regions; None if the log is incomplete."""
    unclaimed_bytes: Bytes | None = None
    """The part of the limit that the allocator had not yet claimed from the GPU."""
    map_free_share: Annotated[float, FieldRule(minimum=0, maximum=1)] | None = None
    """The share of free memory in the printed memory map."""
    by_operation: tuple[OperationBytes, ...] = ()
    """The memory of each operation, largest first."""

    @property
    def free_bytes(self) -> int | None:
        """The free memory in the regions."""
        if self.free_chunks is not None:
            return sum(self.free_chunks)
        if self.limit_bytes is None or self.in_use_bytes is None or self.unclaimed_bytes is None:
            return None
        return self.limit_bytes - self.in_use_bytes - self.unclaimed_bytes

    @property
    def largest_free_bytes(self) -> Bytes | None:
        """The largest free chunk; TensorFlow's own LargestFreeBlock is always 0."""
        return max(self.free_chunks, default=0) if self.free_chunks is not None else None

    @property
    def is_fragmented(self) -> bool:
        """Whether free ≥ requested > largest: enough chunks in total, but none large enough.

        If the log lacks some free chunks, they must have been too small: the allocator refused
        although it could claim no more memory from the GPU.
        """
        asked, free = self.requested_bytes, self.free_bytes
        if asked is None or free is None or free < asked:
            return False
        if self.largest_free_bytes is not None:
            return self.largest_free_bytes < asked
        return self.map_free_share is None or self.map_free_share > 0.1


class DumpReader:
    """Collects the lines of a log's last dump, to parse them at the end."""

    phrases: Sequence[str] = (
        "BFCAllocator dump for", "Total Chunks Chunks in use", "of size",
        "Chunks of size totalling",
        "Sum Total of in-use chunks", "memory limit available bytes", "Limit", "InUse", "MaxInUse",
        "MaxAllocSize", "NumAllocs", "ran out of memory trying to allocate", "Chunk State",
        "bfc allocator cc", "region of size",
    )  # fmt: skip

    def __init__(self) -> None:
        self._lines: list[tuple[int, bytes]] = []
        self._refused: bytes | None = None
        self._ended = False

    def keep(self, number: int, line: bytes) -> None:
        """Keep a line of a dump; a new dump replaces the previous one."""
        if b"trying to allocate" in line:
            if b"not a failure" not in line:
                self._refused = line
            return
        if _START.search(line) or (self._ended and b" of size " in line):
            self._lines, self._ended = [], False
        if b"MaxAllocSize" in line:
            self._ended = True
        if len(self._lines) < _MOST_LINES:
            self._lines.append((number, line))

    def dump(self) -> Dump | None:
        """The last dump; None if the log has none."""
        if not self._lines and self._refused is None:
            return None
        dump = _parsed(decoded(line) for _, line in self._lines)
        dump = dump._replace(line=self._lines[0][0] if self._lines else 0)
        if self._refused is not None:
            found = _REFUSED.search(decoded(self._refused))
            if found is not None:
                asked = int(found[3]) if found[3] else logged_size(found[2])
                dump = dump._replace(allocator=found[1], requested_bytes=asked)
        return dump if dump.limit_bytes or dump.in_use else None


def _parsed(lines: Iterable[str]) -> Dump:
    stats: dict[str, int] = {}
    used: Counter[int] = Counter()
    grouped: dict[int, int] = {}
    operations: Counter[str] = Counter()
    free: list[int] = []
    rest: dict[str, int] = {}
    drawn = ""
    for text in lines:
        chunk = _IN_USE.search(text)
        if chunk is not None:
            used[int(chunk[1])] += 1
            if chunk[2]:
                operations[chunk[2]] += int(chunk[1])
        elif found := _FREE.search(text):
            free.append(int(found[1]))
        elif found := _GROUP.search(text):
            grouped[int(found[2])] = int(found[1])
        elif found := _MAP.search(text):
            drawn = found[1]
        else:
            _read_sums(text, stats, rest)
    complete = _is_complete(used, grouped, stats.get("InUse"))
    limit = stats.get("Limit") or rest.get("limit")
    return Dump(
        0,
        requested_bytes=rest.get("asked"),
        limit_bytes=limit,
        in_use_bytes=stats.get("InUse") or rest.get("sum"),
        peak_bytes=stats.get("MaxInUse"),
        in_use=tuple(Chunks(size, count) for size, count in sorted((grouped or used).items())),
        free_chunks=tuple(free) if complete else None,
        unclaimed_bytes=_unclaimed(limit, used, free, rest, complete=complete),
        map_free_share=drawn.count("_") / len(drawn) if drawn else None,
        by_operation=tuple(OperationBytes(*each) for each in operations.most_common()),
    )


def _read_sums(text: str, stats: dict[str, int], rest: dict[str, int]) -> None:
    if found := _STAT.match(text):
        stats[found[1]] = _size(found[2] + (found[3] or ""))
    elif found := _POOL.search(text):
        rest["limit"], rest["available"] = _size(found[1]), _size(found[2])
    elif found := _SUM.search(text):
        rest["sum"] = _size(found[1])
    elif found := _ASKED.search(text):
        rest["asked"] = _size(found[1])


def _is_complete(used: Counter[int], grouped: dict[int, int], in_use: int | None) -> bool:
    """Whether the log, which may have been trimmed, has all chunks in use: they add up."""
    total = sum(size * count for size, count in used.items())
    if not total:
        return False
    if grouped:
        return total == sum(size * count for size, count in grouped.items())
    return in_use is not None and abs(total - in_use) <= in_use // 100


def _unclaimed(
    limit: int | None, used: Counter[int], free: list[int], rest: dict[str, int], *, complete: bool
) -> int | None:
    if "available" in rest:
        return rest["available"]
    if complete and limit is not None:
        claimed = sum(size * count for size, count in used.items()) + sum(free)
        return max(limit - claimed, 0)
    return None


def _size(text: str) -> int:
    """A size in bytes; rounded since TensorFlow 2.21, as in ``511.99MiB``."""
    return int(text) if text.isdigit() else logged_size(text) or 0
