"""What a step takes and whether it fits: as it ran, and of a compiled one by a replay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.allocator import rounded
from gpuconf.commands.estimate.replay import Limit, fits, memory_of
from gpuconf.commands.estimate.step import Piece, Step
from tests.commands.estimate.hand_made_steps import piece, ran, state, step, weight


def block(*sizes_mib: int) -> list[Piece]:
    """The pieces of a step that XLA compiled into one operation."""
    return [piece(size * MIB, 0, 0) for size in sizes_mib]


def test_a_step_that_ran_is_not_replayed() -> None:
    """Its own figures are the answer, and it fits where its peak does, of whatever part."""
    made = ran(step([piece(2 * MIB, 0, 1), piece(4 * MIB, 1, 3)]), built_bytes=9 * MIB)
    assert memory_of(made) is made.memory
    assert memory_of(made).peak_bytes == 9 * MIB
    assert fits(made, Limit(9 * MIB))
    assert not fits(made, Limit(9 * MIB - 1))
    assert not fits(made, Limit(10 * MIB, margin_bytes=2 * MIB))


def test_a_weight_is_made_beside_its_random_values() -> None:
    """While a weight is made it takes three times its size; state of the optimizer is zeros."""
    large = memory_of(step(block(1), variables=[weight(16 * MIB), weight(2 * MIB, "bias")]))
    assert large.built_bytes == large.peak_bytes == 48 * MIB
    assert large.resident_bytes == 18 * MIB
    states = memory_of(step(block(1), variables=[weight(2 * MIB), state(16 * MIB)]))
    assert states.built_bytes == states.resident_bytes == 18 * MIB


@given(st.lists(st.integers(1, 64 * MIB), min_size=1, max_size=8), st.booleans())
def test_use_is_at_least_what_is_asked_for(sizes: list[int], allow_growth: bool) -> None:
    """What lives, rounded up, and less than twice that; less than that never fits."""
    made = step([piece(size, 0, 0) for size in sizes])
    found = memory_of(made, allow_growth=allow_growth)
    needed = sum(map(rounded, sizes))
    assert needed <= found.peak_bytes <= 2 * needed
    assert found.live == tuple(range(len(sizes)))
    assert not fits(made, Limit(needed - 256, allow_growth))
    assert fits(made, Limit(1 << 50, allow_growth))


@pytest.mark.parametrize(
    ("limit_mib", "allow_growth", "expected"),
    [(14, False, True), (13, False, False), (14, True, False), (18, True, True)],
)
def test_regions_cost_more_than_one_piece(
    limit_mib: int, allow_growth: bool, expected: bool
) -> None:
    """3 + 5 + 6 MiB fit 14 MiB in one piece; in regions they take 4 + 8 + 6."""
    assert fits(step(block(3, 5, 6)), Limit(limit_mib * MIB, allow_growth)) is expected


def test_compiled_state_leaves_its_zeros_behind_the_block() -> None:
    """Two states of 8 MiB share zeros, one of 4 has its own: the first step has 8 MiB more."""
    variables = [weight(MIB), state(8 * MIB), state(8 * MIB), state(4 * MIB)]
    made = step(block(10), variables=variables)._replace(late=(1, 2, 3), is_compiled=True)
    found = memory_of(made, allow_growth=False)
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
    made: Step = step(block(1), variables=pair)._replace(late=(0, 1), is_compiled=True)
    found = memory_of(made, allow_growth=False)
    assert found.built_bytes == 16 * MIB
    assert found.first_step_bytes == found.step_bytes == 17 * MIB


def test_what_is_built_must_fit_too() -> None:
    """A model whose weights cannot be made does not fit, however little its step needs.

    Nor may it fill the margin.
    """
    made = step([piece(256, 0, 0)], variables=[weight(10 * MIB)])
    assert fits(made, Limit(30 * MIB, allow_growth=False))
    assert not fits(made, Limit(29 * MIB, allow_growth=False))
    assert not fits(made, Limit(31 * MIB, allow_growth=False, margin_bytes=2 * MIB))
