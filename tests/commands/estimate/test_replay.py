"""A step replayed in the simulated allocator, by steps made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.allocator import rounded
from gpuconf.commands.estimate.replay import Limit, fits, replay, timeline
from tests.commands.estimate.hand_made_steps import (
    at_batch,
    growing_pieces,
    need_of,
    piece,
    state,
    step,
    weight,
)


def test_what_lives_at_once_is_what_is_in_use() -> None:
    """Use during each operation, the peak and what is live there, of pieces that split evenly."""
    nothing = replay(step([], count=1))
    assert (nothing.peak_bytes, nothing.in_use_bytes, nothing.live) == (0, (0,), ())
    made = step([piece(2 * MIB, 0, 1), piece(4 * MIB, 1, 3), piece(MIB, 3, 3)], count=5)
    done = replay(made)
    assert [size / MIB for size in done.in_use_bytes] == [2, 6, 4, 5, 0]
    assert (done.peak, done.peak_bytes) == (1, 6 * MIB)
    assert done.live == (0, 1)


def test_a_chunk_that_is_taken_over_is_not_asked_for_again() -> None:
    """The result is written over its input: one chunk from the first piece's begin to the end."""
    pieces = [piece(8 * MIB, 0, 1), piece(8 * MIB, 2, 4, goes_on_from=0), piece(MIB, 2, 2)]
    done = replay(step(pieces, count=6))
    assert [size / MIB for size in done.in_use_bytes] == [8, 8, 9, 8, 8, 0]
    again = [piece(3 * MIB, 0, 0)]
    again += [piece(3 * MIB, now, now, goes_on_from=now - 1) for now in (1, 2)]
    *in_use, after = replay(step(again, count=4)).in_use_bytes
    assert (len(set(in_use)), in_use[0] >= 3 * MIB, after) == (1, True, 0), "the last gives it back"
    apart = replay(step([pieces[0]._replace(last=2), pieces[1]._replace(goes_on_from=None)]))
    assert apart.peak_bytes == 16 * MIB


def test_late_state_shares_its_zeros_until_the_first_step() -> None:
    """Two slots of a size are one tensor at first; the first to change takes memory of its own."""
    variables = [weight(2 * MIB), state(8 * MIB), state(8 * MIB, "velocity")]
    made = step([piece(MIB, 0, 0)], count=4, variables=variables)
    late = made._replace(late={1: 2, 2: 3})
    assert replay(made).in_use_bytes == replay(late).in_use_bytes
    assert replay(made).built_bytes == 18 * MIB
    assert replay(late).built_bytes == 10 * MIB
    assert replay(late).resident_bytes == 18 * MIB


def test_a_variable_lies_where_its_new_value_is() -> None:
    """The old memory is free as soon as the value is assigned; the value's stays."""
    value = piece(8 * MIB, 1, 2)._replace(becomes=1)
    done = replay(step([value], count=4, variables=[weight(MIB), state(8 * MIB)]))
    assert [size / MIB for size in done.in_use_bytes] == [9, 17, 17, 9]
    assert done.resident_bytes == 9 * MIB


def test_a_weight_is_made_beside_its_random_values() -> None:
    """While a weight is made it takes three times its size; state of the optimizer is zeros."""
    large = replay(step([piece(256, 0, 0)], variables=[weight(16 * MIB), weight(2 * MIB, "bias")]))
    assert large.built_bytes == large.peak_bytes == 48 * MIB
    assert large.resident_bytes == 18 * MIB
    states = replay(step([piece(256, 0, 0)], variables=[weight(2 * MIB), state(16 * MIB)]))
    assert states.built_bytes == states.resident_bytes == 18 * MIB


@given(growing_pieces(), st.integers(1, 64), st.booleans())
def test_use_is_at_least_what_is_asked_for(
    growing: list[Any], batch_size: int, allow_growth: bool
) -> None:
    """At every operation: what lives, rounded up, and less than twice that."""
    made = at_batch(growing, batch_size)
    done = replay(made, allow_growth=allow_growth)
    for now, in_use in enumerate(done.in_use_bytes):
        live = [each.size_bytes for each in made.pieces if each.first <= now <= each.last]
        assert sum(map(rounded, live)) <= in_use <= 2 * sum(map(rounded, live))
    assert done.in_use_bytes[done.peak] == max(done.in_use_bytes)
    assert need_of(made) <= done.peak_bytes


@given(growing_pieces(), st.integers(1, 64))
def test_the_timeline_adds_up(growing: list[Any], batch_size: int) -> None:
    """The kinds of each moment, rounding included, are what is in use then."""
    made = at_batch(growing, batch_size)
    made = made._replace(variables=(weight(1000), state(2000)))
    done = replay(made)
    moments = timeline(made, done)
    assert [moment.total_bytes for moment in moments] == list(done.in_use_bytes)
    assert [moment.operation for moment in moments] == [each.name for each in made.operations]


@pytest.mark.parametrize(
    ("limit_mib", "allow_growth", "expected"),
    [(14, False, True), (13, False, False), (14, True, False), (18, True, True)],
)
def test_regions_cost_more_than_one_piece(
    limit_mib: int, allow_growth: bool, expected: bool
) -> None:
    """3 + 5 + 6 MiB fit 14 MiB in one piece; in regions they take 4 + 8 + 6."""
    made = step([piece(3 * MIB, 0, 2), piece(5 * MIB, 1, 2), piece(6 * MIB, 2, 2)])
    assert fits(made, Limit(limit_mib * MIB, allow_growth)) is expected


def test_regions_that_nothing_is_in_are_given_back() -> None:
    """As TensorFlow does on a GPU before it gives up: 30 MiB freed make place for 50."""
    made = step([piece(30 * MIB, 0, 0), piece(50 * MIB, 1, 1)])
    assert fits(made, Limit(64 * MIB))
    held = step([piece(30 * MIB, 0, 1), piece(50 * MIB, 1, 1)])
    assert not fits(held, Limit(64 * MIB))


def test_compiled_state_leaves_its_zeros_behind_the_block() -> None:
    """Two states of 8 MiB share zeros, one of 4 has its own: the first step has 8 MiB more."""
    variables = [weight(MIB), state(8 * MIB), state(8 * MIB), state(4 * MIB)]
    late = dict.fromkeys((1, 2, 3), 0)
    pieces = [piece(10 * MIB, 0, 0)]
    made = step(pieces, variables=variables)._replace(late=late, is_compiled=True)
    found = replay(made, allow_growth=False)
    assert found.built_bytes == (1 + 8 + 4) * MIB
    assert found.first_step_bytes == (1 + 8 + 4 + 10 + 8 + 8) * MIB
    assert found.step_bytes == (1 + 8 + 8 + 4 + 10) * MIB
    assert found.peak_bytes == found.first_step_bytes
    assert found.resident_bytes == made.resident_bytes
    assert not fits(made, Limit(found.peak_bytes - MIB, allow_growth=False))
    assert fits(made, Limit(64 * MIB, allow_growth=False))


def test_only_zeros_of_one_shape_are_shared() -> None:
    """Two states of 8 MiB that are transposed have zeros each: no step takes more than another."""
    pair = [state(8 * MIB)._replace(shape=shape) for shape in ((1024, 2048), (2048, 1024))]
    made = step([piece(MIB, 0, 0)], variables=pair)
    for is_compiled in (True, False):
        late = made._replace(late={0: 0, 1: 0}, is_compiled=is_compiled)
        found = replay(late, allow_growth=False)
        assert found.built_bytes == 16 * MIB
        assert found.first_step_bytes == found.step_bytes == 17 * MIB


def test_what_the_framework_may_take_lies_in_the_margin() -> None:
    """Of 100 MiB 4 are the margin: 96 fit alone, and next to what the framework takes of the 4."""
    limit = Limit(100 * MIB, allow_growth=False, margin_bytes=4 * MIB)
    assert fits(step([piece(96 * MIB, 0, 0)]), limit)
    assert not fits(step([piece(97 * MIB, 0, 0)]), limit)
    assert fits(step([piece(96 * MIB, 0, 0)])._replace(spare_bytes=4 * MIB), limit)
    assert not fits(step([piece(96 * MIB, 0, 0)])._replace(spare_bytes=5 * MIB), limit)


def test_what_is_built_must_fit_too() -> None:
    """A model whose weights cannot be made does not fit, however little its step needs."""
    made = step([piece(256, 0, 0)], variables=[weight(10 * MIB)])
    assert fits(made, Limit(30 * MIB, allow_growth=False))
    assert not fits(made, Limit(29 * MIB, allow_growth=False))


@given(growing_pieces(), st.integers(1, 64), st.booleans())
def test_less_than_is_asked_for_never_fits(
    growing: list[Any], batch_size: int, allow_growth: bool
) -> None:
    """Nor does anything fail without a limit worth the name."""
    made = at_batch(growing, batch_size)
    need = need_of(made)
    if need > 256:
        assert not fits(made, Limit(need - 256, allow_growth))
    assert fits(made, Limit(1 << 50, allow_growth))
