"""The simulated BFC allocator: what always holds, and that TensorFlow's own does the same."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.allocator import Allocator, Chunk, OutOfMemoryError, rounded
from tests.programs import warm
from tests.programs.processes import run_python

_MOST_WASTE = 128 * MIB
_SIZES = st.one_of(
    st.integers(0, 3000),
    st.integers(0, 8 * MIB),
    st.integers(0, 400 * MIB),
    st.sampled_from([1, 255, 256, 257, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 128 * MIB, 256 * MIB]),
)
# A number to be allocated, or the share of the living chunks before the one that is freed.
_REQUESTS = st.lists(st.one_of(_SIZES, st.floats(0, 1, exclude_max=True)), max_size=60)
_LIMITS = st.one_of(st.none(), st.integers(1, 2048 * MIB))


def neighbors(chunk: Chunk) -> Iterator[Chunk]:
    """All chunks of the region, from its beginning."""
    first = chunk
    while first.before is not None:
        first = first.before
    at: Chunk | None = first
    while at is not None:
        yield at
        at = at.after


def regions(chunks: list[Chunk]) -> list[list[Chunk]]:
    """The regions that these chunks are in, each with all its chunks."""
    by_beginning = {id(found[0]): found for found in map(list, map(neighbors, chunks))}
    return list(by_beginning.values())


def check(allocator: Allocator, live: dict[int, tuple[int, Chunk]], limit: int | None) -> None:
    """Everything that holds of an allocator with these living chunks and what they are for."""
    chunks = [chunk for _, chunk in live.values()]
    assert allocator.in_use_bytes == sum(chunk.size_bytes for chunk in chunks)
    assert allocator.peak_bytes >= allocator.in_use_bytes
    for wanted, chunk in live.values():
        size = rounded(wanted)
        assert chunk.in_use
        assert size <= chunk.size_bytes < max(2 * size, size + _MOST_WASTE)
    whole = regions(chunks)
    for region in whole:
        for one, other in itertools.pairwise(region):
            assert one.address + one.size_bytes == other.address
            assert one.in_use or other.in_use, "two free chunks next to each other"
            assert other.before is one
    used = [chunk for region in whole for chunk in region if chunk.in_use]
    assert sorted(map(id, used)) == sorted(map(id, chunks))
    if limit is not None:
        assert sum(chunk.size_bytes for region in whole for chunk in region) <= limit


@pytest.mark.slow
@given(_REQUESTS, _LIMITS, st.booleans())
def test_what_always_holds(
    requests: list[int | float], limit: int | None, allow_growth: bool
) -> None:
    """In use is what lives; chunks do not overlap, free ones join, none is far too large.

    Together the regions never exceed the limit, and a request that fails changes nothing in use.
    """
    allocator = Allocator(limit, allow_growth=allow_growth)
    live: dict[int, tuple[int, Chunk]] = {}
    for request in requests:
        if isinstance(request, float):
            if live:
                _, chunk = live.pop(list(live)[int(request * len(live))])
                allocator.free(chunk)
        else:
            before = allocator.in_use_bytes
            try:
                chunk = allocator.allocate(request)
            except OutOfMemoryError:
                assert limit is not None
                assert allocator.in_use_bytes == before
            else:
                live[id(chunk)] = request, chunk
        check(allocator, live, limit)
    # Everything is freed: each region is one free chunk again.
    beginnings = [region[0] for region in regions([chunk for _, chunk in live.values()])]
    for _, chunk in live.values():
        allocator.free(chunk)
    assert allocator.in_use_bytes == 0
    assert all(len(list(neighbors(start))) == 1 for start in beginnings)


@given(st.lists(_SIZES, max_size=30))
def test_the_same_again_needs_no_more(sizes: list[int]) -> None:
    """A sequence that was served once is served again out of what was taken for it."""
    allocator = Allocator()
    chunks = [allocator.allocate(size) for size in sizes]
    taken = sum(chunk.size_bytes for region in regions(chunks) for chunk in region)
    for chunk in chunks:
        allocator.free(chunk)
    chunks = [allocator.allocate(size) for size in sizes]
    assert sum(chunk.size_bytes for region in regions(chunks) for chunk in region) <= taken


def region_sizes(allocator: Allocator, sizes: list[int]) -> list[int]:
    """The sizes of the regions in which these requests, one after the other, are served."""
    chunks = [allocator.allocate(size) for size in sizes]
    found = [sum(chunk.size_bytes for chunk in region) for region in regions(chunks)]
    return [size // MIB for size in found]


@pytest.mark.parametrize(
    ("sizes_mib", "regions_mib"),
    [
        ([1, 1, 1, 1, 2, 4, 4, 8], [2, 4, 8, 16]),  # each twice the last
        ([2, 100, 20, 200], [2, 128, 128, 256]),  # as often doubled as it takes
        ([3, 3, 3, 3], [4, 4, 8]),  # one that was made larger is not doubled for the next
    ],
)
def test_regions_double(sizes_mib: list[int], regions_mib: list[int]) -> None:
    """With growth, memory is taken in regions of 2 MiB, 4 MiB and so on."""
    assert region_sizes(Allocator(), [size * MIB for size in sizes_mib]) == regions_mib


def test_the_last_region_is_what_the_limit_leaves() -> None:
    """A region is cut to the limit; what does not fit the rest is refused, smaller still served."""
    allocator = Allocator(10 * MIB)
    assert region_sizes(allocator, [2 * MIB, 3 * MIB]) == [2, 4]
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(5 * MIB)
    assert allocator.allocate(4 * MIB).size_bytes == 4 * MIB


def test_without_growth_there_is_one_region() -> None:
    """All of the limit, to its last 256 B."""
    allocator = Allocator(10 * MIB + 300, allow_growth=False)
    chunks = [allocator.allocate(5 * MIB), allocator.allocate(5 * MIB + 1)]
    assert len(regions(chunks)) == 1
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(1)


@pytest.mark.parametrize(
    ("free_mib", "wanted_mib", "given_mib"),
    [(15, 8, 15), (16, 8, 8), (17, 8, 8), (300, 200, 300), (327, 200, 327), (328, 200, 200)],
)
def test_what_is_split(free_mib: int, wanted_mib: int, given_mib: int) -> None:
    """A chunk less than twice the request is given whole, but for a rest of 128 MiB and more."""
    allocator = Allocator(free_mib * MIB, allow_growth=False)
    assert allocator.allocate(wanted_mib * MIB).size_bytes == given_mib * MIB


_IN_TENSORFLOW = """
import json
import tensorflow as tf

sizes, requests = json.loads('''{told}''')
dims = {{size: tf.constant([size], tf.int32) for size in sizes}}
value = tf.constant(0, tf.uint8)

def in_use():
    return tf.config.experimental.get_memory_info("CPU:0")["current"]

filling = tf.raw_ops.Fill(dims=dims[sizes[0]], value=value)
held = {{0: tf.raw_ops.Fill(dims=dims[sizes[1]], value=value)}}
del held[0]
found = [in_use()]
for number, size in requests:
    if size:
        held[number] = tf.raw_ops.Fill(dims=dims[size], value=value)
    else:
        del held[number]
    found.append(in_use())
print("TOLD", json.dumps(found))
"""


def requests_at_random(rng: random.Random, sizes: list[int]) -> list[tuple[int, int]]:
    """Numbered requests of these sizes; a size of 0 frees the one of that number."""
    held: list[int] = []
    requests = []
    for number in range(1, 1500):
        if held and rng.random() < 0.48:
            requests.append((held.pop(rng.randrange(len(held))), 0))
        else:
            held.append(number)
            requests.append((number, rng.choice(sizes)))
    return requests


def simulated(sizes: list[int], requests: list[tuple[int, int]]) -> list[int]:
    """What the simulated allocator has in use at first and after each request."""
    allocator = Allocator()
    for size in (*(4 for _ in sizes), 4, sizes[0]):  # the constants of the program, and `filling`
        allocator.allocate(size)
    allocator.free(allocator.allocate(sizes[1]))
    held: dict[int, Chunk] = {}
    found = [allocator.in_use_bytes]
    for number, size in requests:
        if size:
            held[number] = allocator.allocate(size)
        else:
            allocator.free(held.pop(number))
        found.append(allocator.in_use_bytes)
    return found


@pytest.mark.slow
def test_tensorflows_own_allocator_counts_the_same(tmp_path: Path) -> None:
    """1500 tensors made and dropped in TensorFlow: as many bytes in use after every single one.

    The first region is filled, and the second large enough for all: which of two chunks of the
    same size is taken depends on the addresses of their regions, which only the system knows.
    """
    rng = random.Random(6)
    requested = sorted({int(2 ** rng.uniform(0, 23)) for _ in range(60)})
    filling = 2 * MIB - rounded(4) * (len(requested) + 3)
    sizes = [filling, 512 * MIB, *requested]
    requests = requests_at_random(rng, requested)
    told = run_python(
        _IN_TENSORFLOW.format(told=json.dumps([sizes, requests])),
        tmp_path,
        environ={
            "TF_CPU_ALLOCATOR_USE_BFC": "true",
            "TF_CPU_BFC_MEM_LIMIT_IN_MB": "4096",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "-1",
            warm.VARIABLE: "1",
        },
        timeout_s=300,
    )
    real = json.loads(told.splitlines()[-1].removeprefix("TOLD "))
    assert real == simulated(sizes, requests)
