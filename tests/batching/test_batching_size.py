"""How the size of the batches on the GPU is found, bounded, and remembered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuconf.batching.card import ComputeDevice
from gpuconf.batching.failures import OutOfMemory
from gpuconf.batching.size import CardBatch, KnownSize, SizeKey, forget, key_for, known_size

KEY = SizeKey("evaluate", ("model",), "GPU:0", 1024)
FULL = "OOM when allocating tensor with shape[9] on /device:GPU:0 by allocator GPU_0_bfc"


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    forget()


def sized(most: int, **options: Any) -> CardBatch:
    """A size that is to be found out."""
    return CardBatch(KEY, what="test", most=most, max_retries=99, **options)


def taken(batch: CardBatch, samples: int, fits: int) -> list[int]:
    """The sizes in which so many samples ran, on a GPU for ``fits`` of them."""
    sizes = []
    while samples:
        size = min(samples, batch.size)
        if size > fits:
            batch.failed(OutOfMemory(RuntimeError(FULL), FULL, True), size)
            continue
        batch.succeeded(size)
        sizes.append(size)
        samples -= size
    return sizes


@given(some.integers(1, 3000), some.integers(1, 3000), some.integers(1, 3000))
def test_all_samples_run_in_sizes_that_fit(samples: int, most: int, fits: int) -> None:
    """Whatever the GPU takes, all run; sizes are never above the wanted, nor half of what fits."""
    forget()
    batch = sized(most)
    sizes = taken(batch, samples, fits)
    assert sum(sizes) == samples
    assert max(sizes) <= min(most, fits)
    assert max(sizes) >= min(samples, most, (fits + 1) // 2)
    assert batch.refusals <= max(samples, fits).bit_length() + 1


@given(some.integers(1, 4000), some.integers(1, 4000), some.integers(1, 64))
def test_a_small_start_doubles_as_long_as_that_runs(samples: int, fits: int, start: int) -> None:
    """One refusal above what fits, besides those of a start that was too large."""
    forget()
    batch = sized(10**9, start=start, room_to_double=lambda: True)
    sizes = taken(batch, samples, fits)
    assert sum(sizes) == samples
    assert sizes[0] == min(samples, start) or start > fits
    assert batch.refusals <= 1 + (start.bit_length() if start > fits else 0)


def test_no_doubling_where_there_is_no_room() -> None:
    """What the allocator's peak forbids is not tried: no refusal is provoked."""
    batch = sized(10**9, start=8, room_to_double=lambda: False)
    assert taken(batch, 100, fits=8) == [8] * 12 + [4]
    assert batch.refusals == 0


def test_the_size_is_remembered_for_this_key_alone() -> None:
    """The next call begins with what ran; another shape, GPU or limit begins again."""
    taken(sized(100), 100, fits=30)
    assert known_size(KEY) == KnownSize(25, 50)
    again = sized(100)
    assert again.size == 25
    taken(again, 100, fits=30)
    assert again.refusals == 0
    for other in (
        KEY._replace(kind="fit"),
        KEY._replace(signature=("model", (9,))),
        KEY._replace(card="GPU:1"),
        KEY._replace(limit_mib=2048),
    ):
        assert known_size(other) is None
    forget()
    assert sized(100).size == 100


def test_a_larger_wish_is_tried_where_nothing_was_refused() -> None:
    """That 16 ran says nothing against 64; that 64 did not says something against 128."""
    taken(sized(16), 16, fits=1000)
    assert sized(64).size == 64
    taken(sized(64), 64, fits=40)
    assert sized(128).size == 32


def test_a_small_last_batch_does_not_shrink_what_is_known() -> None:
    """The rest of the samples is smaller than what fits, and is not remembered as the best."""
    taken(sized(32), 33, fits=1000)
    assert known_size(KEY) == KnownSize(32, None)


def test_keys_count_whole_mebibytes_of_the_limit() -> None:
    """A limit is part of the key, and no limit is another key."""
    assert key_for("fit", ("m",), ComputeDevice("GPU:0", (5 << 20) + 1)).limit_mib == 5
    assert key_for("fit", ("m",), ComputeDevice("GPU:0")).limit_mib is None
