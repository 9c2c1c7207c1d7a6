"""The need as a line in the batch: held against counting it at other batches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.memory_estimate import Phase
from gpuconf.commands.estimate.phases import most_live_bytes, phases_of
from gpuconf.commands.estimate.step import BACKWARD
from tests.commands.estimate.hand_made_steps import (
    at_batch,
    growing_pieces,
    need_of,
    piece,
    ran,
    step,
)


@given(growing_pieces(), st.integers(1, 64), st.integers(1, 64))
def test_the_line_meets_both_steps(growing: list[Any], small: int, more: int) -> None:
    """At both batch sizes it is what lives at most there, whichever of the two is the estimate."""
    one, other = at_batch(growing, small), at_batch(growing, small + more)
    for mine, another in ((one, other), (other, one)):
        (phase,) = phases_of(mine, another)
        for each in (one, other):
            said = phase.base_bytes + phase.per_sample_bytes * each.batch_size
            assert most_live_bytes(each) == need_of(each)
            assert said == pytest.approx(need_of(each), abs=1)


def test_a_formula() -> None:
    """It says where the peak is; what stays is not in it, and less for more samples is no line."""

    def at(batch_size: int) -> Any:
        pieces = [piece(10 * MIB, 0, 2), piece(3 * MIB * batch_size, 1, 1)]
        return ran(step(pieces, batch_size=batch_size))

    one, other = at(4), at(8)
    assert phases_of(one, other) == (Phase(10 * MIB, 3 * MIB, 4, "op1", "layer1", BACKWARD),)
    (phase,) = phases_of(one, one._replace(batch_size=8, pieces=()))
    assert phase.per_sample_bytes == 0
