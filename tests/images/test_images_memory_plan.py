"""How ``host_limit`` is shared out: tables of plans, and what holds for all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB, parse_size
from gpuconf.errors import UsageError
from gpuconf.images.memory_plan import Demand, least_decoding_bytes, plan_memory

_USUAL: dict[str, Any] = {
    "images": 20_000,
    "path_bytes": 20_000 * 60,
    "height": 224,
    "width": 224,
    "channels": 3,
    "batch_size": 32,
}


def plan(limit: str, *, cpus: int = 8, **changes: Any) -> Any:
    """The plan for the usual demand, changed."""
    demand = Demand(**{**_USUAL, **changes})
    return plan_memory(demand, host_limit_bytes=parse_size(limit), cpus=cpus)


@pytest.mark.parametrize(
    ("limit", "changes", "workers", "waiting"),
    [
        ("2GiB", {}, 8, 4),
        ("2GiB", {"cpus": 2}, 2, 4),
        ("2GiB", {"cpus": 64}, 14, 4),
        ("16GiB", {"cpus": 64}, 64, 4),
        ("512MiB", {}, 3, 2),
        ("128MiB", {}, 1, 1),
        ("2GiB", {"batch_size": 256}, 8, 1),
    ],
)
def test_workers_and_batches(
    limit: str, changes: dict[str, Any], workers: int, waiting: int
) -> None:
    """As many workers as processors, fewer where memory is short; batches that wait likewise."""
    made = plan(limit, **changes)
    assert (made.workers, made.batches_waiting) == (workers, waiting)


def test_the_parts_of_a_plan() -> None:
    """A batch is its values in float32, twice seven bytes a pixel are kept for a large image."""
    made = plan("2GiB", cpus=2)
    assert made.batch_bytes == 32 * 224 * 224 * 3 * 4
    assert made.image_bytes == 224 * 224 * 3 * 4
    assert made.index_bytes == 20_000 * (60 + 112)
    assert plan("2GiB", label_bytes=800).index_bytes == made.index_bytes + 800
    assert made.alone_bytes == pytest.approx(2 * made.decoding_bytes, rel=1e-6)
    assert 0.999 * 2 * GIB < made.held_bytes <= 2 * GIB


def test_the_plan_shows_its_sum() -> None:
    """Every row is a size and what for, and the last one is the sum."""
    lines = str(plan("2GiB", cpus=2)).splitlines()
    assert lines[0] == "host memory: 2048 MiB on top of the interpreter's own"
    assert "(4 waiting + 3 in work) × 18.4 MiB" in str(lines)
    assert lines[-1].split() == ["2048.0", "MiB", "at", "most,", "together"]


def test_a_limit_that_is_too_small_shows_the_sum() -> None:
    """The error has every summand and a limit that suffices."""
    with pytest.raises(UsageError, match="is too small") as caught:
        plan("64MiB")
    text = str(caught.value)
    assert "4 batches of 32 × 224 × 224 × 3 × 4 B = 73.5 MiB" in text
    enough = text.rpartition('host_limit="')[2].partition('"')[0]
    assert plan(enough).workers == 1


@given(
    images=st.integers(1, 10**7),
    side=st.integers(1, 2048),
    channels=st.sampled_from([1, 3, 4]),
    batch_size=st.integers(1, 1024),
    limit=st.integers(MIB, 64 * GIB),
    cpus=st.integers(1, 256),
)
def test_no_plan_is_larger_than_its_limit(
    *, images: int, side: int, channels: int, batch_size: int, limit: int, cpus: int
) -> None:
    """Either a UsageError, or a plan within the limit in which an image can be decoded."""
    demand = Demand(
        images=images,
        path_bytes=50 * images,
        height=side,
        width=side,
        channels=channels,
        batch_size=batch_size,
    )
    try:
        made = plan_memory(demand, host_limit_bytes=limit, cpus=cpus)
    except UsageError:
        return
    assert made.held_bytes <= limit
    assert 1 <= made.workers <= cpus
    assert 1 <= made.batches_waiting <= 4
    assert made.decoding_bytes >= least_decoding_bytes(demand)
    assert made.alone_bytes >= made.decoding_bytes
