"""A simulation of TensorFlow's BFC allocator ("best fit with coalescing").

Memory in use exceeds the requested memory: requests are rounded up, and a free chunk less than
twice as large as the request is used whole.  For convolutional networks this adds some 5 to 10 % to
the peak.  Fragmentation also decides whether something fits.

Source: ``xla/tsl/framework/bfc_allocator.cc``.  Pure; addresses are made up.
"""

from __future__ import annotations

import bisect

from gpuconf.basics.units import MIB

GRANULE_BYTES = 256  # kMinAllocationSize
_FIRST_REGION_BYTES = 2 * MIB  # with allow_growth; doubled for each further one
_MOST_WASTE_BYTES = 128 * MIB  # a larger remainder is always split off
_BINS = 21  # for chunks of at least 256 B, 512 B, ..., 256 MiB
_GAP_BYTES = 1 << 50  # between regions, so that chunks of different regions never merge


class OutOfMemoryError(Exception):
    """No chunk is large enough, and the limit allows no more memory."""


class Chunk:
    """A part of a region, in use or free; ``before`` and ``after`` are its neighbors."""

    __slots__ = ("address", "after", "before", "in_use", "size_bytes")

    def __init__(self, address: int, size_bytes: int) -> None:
        self.address = address
        self.size_bytes = size_bytes
        self.before: Chunk | None = None
        self.after: Chunk | None = None
        self.in_use = False


class Allocator:
    """An allocator with or without a limit in bytes.

    With ``allow_growth`` it adds regions as needed, each twice as large as the last; without it
    there is one region of the size of the limit.  Before it fails, it frees unused regions and adds
    a larger one, as TensorFlow's allocator does on a GPU ("Garbage collection" in its log).
    """

    def __init__(self, limit_bytes: int | None = None, *, allow_growth: bool = True) -> None:
        grows = allow_growth or limit_bytes is None
        self._limit_bytes = limit_bytes
        self._next_region_bytes = _FIRST_REGION_BYTES if grows else rounded(limit_bytes or 0)
        self._taken_bytes = 0
        self._regions = 0
        self._bins: list[list[tuple[int, int, Chunk]]] = [[] for _ in range(_BINS)]
        self.in_use_bytes = 0
        self.peak_bytes = 0

    def allocate(self, size_bytes: int) -> Chunk:
        """Return the smallest free chunk that is large enough, split if much of it would be unused.

        Raises OutOfMemoryError.
        """
        wanted = rounded(size_bytes)
        chunk = self._best_fit(wanted) or self._new_region(wanted)
        if chunk is None and self._give_back(wanted):
            chunk = self._new_region(wanted)
        if chunk is None:
            raise OutOfMemoryError
        self._forget(chunk)
        rest = chunk.size_bytes - wanted
        if rest >= wanted or rest >= _MOST_WASTE_BYTES:
            self._split(chunk, wanted)
        chunk.in_use = True
        self.in_use_bytes += chunk.size_bytes
        self.peak_bytes = max(self.peak_bytes, self.in_use_bytes)
        return chunk

    def free(self, chunk: Chunk) -> None:
        """Free a chunk and merge it with its free neighbors."""
        self.in_use_bytes -= chunk.size_bytes
        chunk.in_use = False
        if chunk.after is not None and not chunk.after.in_use:
            self._forget(chunk.after)
            _join(chunk, chunk.after)
        if chunk.before is not None and not chunk.before.in_use:
            before = chunk.before
            self._forget(before)
            _join(before, chunk)
            chunk = before
        self._remember(chunk)

    def _best_fit(self, wanted: int) -> Chunk | None:
        for bin_ in self._bins[_bin_number(wanted) :]:
            place = bisect.bisect_left(bin_, (wanted,))
            if place < len(bin_):
                return bin_[place][2]
        return None

    def _new_region(self, wanted: int) -> Chunk | None:
        left = self._left_bytes()
        if left is not None and wanted > left:
            return None
        size = self._next_region_bytes
        while size < wanted:
            size *= 2
        # The next region is twice as large, unless this one was just enlarged.
        self._next_region_bytes = size if size > self._next_region_bytes else size * 2
        size = size if left is None else min(size, left)
        self._taken_bytes += size
        self._regions += 1
        chunk = Chunk(self._regions * _GAP_BYTES, size)
        self._remember(chunk)
        return chunk

    def _left_bytes(self) -> int | None:
        """Return how much more memory may be taken; None without a limit."""
        if self._limit_bytes is None:
            return None
        return (self._limit_bytes - self._taken_bytes) // GRANULE_BYTES * GRANULE_BYTES

    def _give_back(self, wanted: int) -> bool:
        """Free all unused regions; return False, without effect, if that would not be enough."""
        free = [
            chunk
            for bin_ in self._bins
            for _, _, chunk in bin_
            if chunk.before is None and chunk.after is None
        ]
        size = sum(chunk.size_bytes for chunk in free)
        left = self._left_bytes()
        if not size or left is None or wanted > left + size:
            return False
        for chunk in free:
            self._forget(chunk)
        self._taken_bytes -= size
        return True

    def _split(self, chunk: Chunk, wanted: int) -> None:
        rest = Chunk(chunk.address + wanted, chunk.size_bytes - wanted)
        rest.before, rest.after = chunk, chunk.after
        if rest.after is not None:
            rest.after.before = rest
        chunk.after = rest
        chunk.size_bytes = wanted
        self._remember(rest)

    def _remember(self, chunk: Chunk) -> None:
        entry = (chunk.size_bytes, chunk.address, chunk)
        bisect.insort(self._bins[_bin_number(chunk.size_bytes)], entry)

    def _forget(self, chunk: Chunk) -> None:
        bin_ = self._bins[_bin_number(chunk.size_bytes)]
        del bin_[bisect.bisect_left(bin_, (chunk.size_bytes, chunk.address))]


def rounded(size_bytes: int) -> int:
    """Return the size that the allocator counts: the next multiple of 256 bytes, at least 256."""
    return max(GRANULE_BYTES, -(-size_bytes // GRANULE_BYTES) * GRANULE_BYTES)


def _bin_number(size_bytes: int) -> int:
    return min(_BINS - 1, (size_bytes // GRANULE_BYTES).bit_length() - 1)


def _join(chunk: Chunk, after: Chunk) -> None:
    chunk.size_bytes += after.size_bytes
    chunk.after = after.after
    if chunk.after is not None:
        chunk.after.before = chunk
