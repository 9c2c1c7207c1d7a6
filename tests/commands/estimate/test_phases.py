"""The need as a formula of the batch: held against counting it at every batch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.memory_estimate import Phase
from gpuconf.commands.estimate.phases import MOST_BATCH, are_alike, live_bytes, phases_of, scaled
from tests.commands.estimate.hand_made_steps import (
    at_batch,
    growing_pieces,
    need_of,
    operations,
    piece,
    step,
)

_MOST = 1000


def said(phases: tuple[Phase, ...], batch_size: int) -> float:
    """What the formula gives: the phase that has begun last."""
    phase = [each for each in phases if each.first_batch <= batch_size][-1]
    return phase.base_bytes + phase.per_sample_bytes * batch_size


@given(growing_pieces(), st.integers(1, 64), st.integers(1, 64))
def test_the_formula_is_right_at_every_batch(growing: list[Any], one: int, more: int) -> None:
    """From two traces at any batches, the need at each batch from 1 to 1000, to the byte."""
    phases = phases_of(at_batch(growing, one), at_batch(growing, one + more))
    positions = range(len(at_batch(growing, 1).operations))
    lines = [
        [sum(each[which] for each in growing if each[2] <= now <= each[3]) for which in (0, 1)]
        for now in positions
    ]
    for batch_size in range(1, _MOST + 1):
        need = max(base + per_sample * batch_size for base, per_sample in lines)
        assert said(phases, batch_size) == pytest.approx(need, abs=1, rel=1e-9)


@given(growing_pieces(), st.integers(1, 64))
def test_phases_follow_each_other(growing: list[Any], one: int) -> None:
    """The first begins at batch 1; each later one grows faster, and names where it is."""
    small, large = at_batch(growing, one), at_batch(growing, one * 2)
    phases = phases_of(small, large)
    firsts = [phase.first_batch for phase in phases]
    assert firsts[0] == 1
    assert firsts == sorted(set(firsts))
    assert firsts[-1] <= MOST_BATCH
    rises = [phase.per_sample_bytes for phase in phases]
    assert rises == sorted(set(rises))
    for phase in phases:
        assert phase.operation in {each.name for each in small.operations}
    for traced in (small, large):
        assert said(phases, traced.batch_size) == pytest.approx(max(live_bytes(traced)), abs=1)


def test_two_phases_cross_where_the_steeper_one_is_higher() -> None:
    """100 MiB and 16.6 MiB a sample pass 300 MiB and 0.5 MiB a sample at batch 13."""

    def traced(batch_size: int) -> Any:
        sizes = [300 * MIB + MIB * batch_size // 2, 100 * MIB + 166 * MIB * batch_size // 10]
        pieces = [piece(size, now, now) for now, size in enumerate(sizes)]
        return step(pieces, batch_size=batch_size)

    phases = phases_of(traced(10), traced(20))
    assert [(each.first_batch, each.operation) for each in phases] == [(1, "op0"), (13, "op1")]
    assert phases[0].base_bytes == 300 * MIB
    assert phases[1].part == "backward"


def test_what_is_taken_over_is_counted_once() -> None:
    """A piece that continues in another's memory begins where that one ends."""
    made = step([piece(8, 0, 1), piece(8, 2, 3, goes_on_from=0), piece(1, 1, 2)])
    assert live_bytes(made) == [8, 9, 9, 8]


def test_steps_of_other_operations_have_no_formula() -> None:
    """Two traces that differ in more than sizes say nothing of other batches."""
    one = step([piece(8, 0, 1), piece(8, 1, 1)], count=3)
    others = [
        step([piece(8, 0, 1)], count=3),
        step([piece(8, 0, 1), piece(8, 1, 2)], count=3),
        step([piece(8, 0, 1), piece(8, 2, 2, goes_on_from=0)], count=3),
        step([piece(8, 0, 1), piece(8, 1, 1)], count=4),
    ]
    for other in (each._replace(batch_size=2) for each in others):
        assert not are_alike(one, other)
        assert phases_of(one, other) == ()
    assert are_alike(one, one._replace(batch_size=2))


@given(growing_pieces(), st.integers(1, 64), st.integers(1, 64), st.integers(1, _MOST))
def test_scaling_gives_what_a_trace_would(
    growing: list[Any], one: int, more: int, batch_size: int
) -> None:
    """The sizes at any batch, smaller and larger, from traces at two."""
    found = scaled(at_batch(growing, one), at_batch(growing, one + more), batch_size)
    traced = at_batch(growing, batch_size)
    assert found.batch_size == batch_size
    assert found.operations == operations(len(found.operations))
    for mine, right in zip(found.pieces, traced.pieces, strict=True):
        assert mine.size_bytes == pytest.approx(right.size_bytes, abs=1, rel=1e-9)
        assert mine._replace(size_bytes=0) == right._replace(size_bytes=0)
    assert max(live_bytes(found)) == pytest.approx(need_of(traced), abs=12, rel=1e-9)
