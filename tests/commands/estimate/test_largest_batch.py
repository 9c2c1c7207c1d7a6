"""The largest batch that fits, of tracers made by hand: against trying every batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.largest_batch import largest_batch
from gpuconf.commands.estimate.phases import MOST_BATCH
from gpuconf.commands.estimate.replay import Limit, fits
from gpuconf.commands.estimate.step import Step
from tests.commands.estimate.hand_made_steps import at_batch, growing_pieces, piece, step, weight

_MOST = 200


class Tracer:
    """A tracer that notes the batches it is requested."""

    def __init__(self, make: Callable[[int], Step]) -> None:
        self._make = make
        self.asked: list[int] = []

    def __call__(self, batch_size: int) -> Step:
        self.asked.append(batch_size)
        return self._make(batch_size)

    def largest(self, limit: Limit, *, first: int = 8) -> int:
        """The largest batch, from traces at ``first`` and twice that."""
        return largest_batch(self, self._make(first), self._make(first * 2), limit)


def of_memory(make: Callable[[int], int], **more: Any) -> Callable[[int], Step]:
    """Steps of one piece of ``make(batch)`` MiB."""

    def trace(batch_size: int) -> Step:
        return step([piece(make(batch_size) * MIB, 0, 0)], batch_size=batch_size, **more)

    return trace


def in_one_region(size_mib: int) -> Limit:
    """A limit without growth: all of it can be one piece."""
    return Limit(size_mib * MIB, allow_growth=False)


@given(growing_pieces(), st.integers(0, 1024), st.booleans(), st.integers(1, 32))
def test_it_fits_and_was_traced(
    growing: list[Any], limit_mib: int, allow_growth: bool, first: int
) -> None:
    """What is proposed runs by its own trace; where it is 0, not even one sample does."""
    trace = Tracer(lambda batch_size: at_batch(growing, batch_size))
    limit = Limit(limit_mib * MIB + 1, allow_growth)
    found = trace.largest(limit, first=first)
    assert trace.asked[-1] == max(1, found) or found in trace.asked
    if found:
        assert fits(at_batch(growing, found), limit)
    else:
        assert not fits(at_batch(growing, 1), limit)


@given(growing_pieces(), st.integers(1, 512))
def test_it_is_the_largest(growing: list[Any], limit_mib: int) -> None:
    """One more sample does not fit; odd pieces aside, no larger batch of the first 200 does."""
    trace = Tracer(lambda batch_size: at_batch(growing, batch_size))
    limit = in_one_region(limit_mib)
    found = trace.largest(limit)
    tried = [batch for batch in range(1, _MOST) if fits(at_batch(growing, batch), limit)]
    whole = all(batch in tried for batch in range(1, max(tried, default=0)))
    if whole and found < MOST_BATCH:
        assert not fits(at_batch(growing, found + 1), limit)
    if whole and len(tried) < _MOST - 1:
        assert found == max(tried, default=0)


def test_a_batch_that_runs_is_gone_on_from() -> None:
    """Of these pieces one sample does not fit, 2 to 9 do: the 8 that were traced are no end."""
    nothing = (0, 0, 0, 0)
    growing = [nothing, (0, 493313, 0, 0), *[nothing] * 3, (0, 0, 0, 1), nothing]
    growing += [(4471041, 0, 1, 2), (494849, 0, 2, 2)]
    trace = Tracer(lambda batch_size: at_batch(growing, batch_size))
    limit = in_one_region(9)
    tried = [batch for batch in range(1, 20) if fits(at_batch(growing, batch), limit)]
    assert tried == list(range(2, 10))
    assert trace.largest(limit) == 9


@pytest.mark.parametrize(("limit_mib", "expected"), [(100, 45), (1000, 495), (12, 1), (11, 0)])
def test_one_trace_is_enough_where_all_is_straight(limit_mib: int, expected: int) -> None:
    """10 MiB and 2 a sample: looked for without tracing, and the answer traced, once."""
    trace = Tracer(of_memory(lambda batch: 10 + 2 * batch))
    assert trace.largest(in_one_region(limit_mib)) == expected
    assert trace.asked == [max(1, expected)]


@pytest.mark.parametrize(
    ("memory_mib", "limit_mib", "first", "fitting"),
    [
        # Another kernel takes 10 % more, or a sample a fifth, than two small traces foretell.
        (lambda batch: batch * (100 if batch < 40 else 110), 5000, 50, 45),
        (lambda batch: 10 * batch if batch <= 20 else 160 + 2 * batch, 1000, 100, 420),
        (lambda batch: 10 * batch if batch <= 20 else 200 + batch, 300, 30, 100),
        (lambda batch: batch * batch, 10_000, 422, 100),
        # One that was traced and fits is not passed over by the retreat, in steps of 2 %.
        (lambda batch: 10 * batch if batch <= 16 else 14 * batch, 165, 16, 16),
    ],
)
def test_the_traces_decide(
    memory_mib: Callable[[int], int], limit_mib: int, first: int, fitting: int
) -> None:
    """Where two traces foretell too much it retreats, where too little it looks further."""
    trace = Tracer(of_memory(memory_mib))
    found = trace.largest(in_one_region(limit_mib))
    assert trace.asked[0] == first
    assert 0.9 * fitting <= found <= fitting
    assert len(trace.asked) < 20, "each may be a compilation of seconds"


def test_where_nothing_fits_a_trace_of_one_sample_has_said_so() -> None:
    """Extrapolated below nothing, but one sample fits: it is found."""
    trace = Tracer(of_memory(lambda batch: 1 if batch == 1 else 100 + batch))
    assert trace.largest(in_one_region(50)) == 1
    weights = of_memory(lambda batch: batch, variables=[weight(100 * MIB)])
    assert Tracer(weights).largest(in_one_region(50)) == 0


def test_steps_that_are_not_alike_are_traced_each() -> None:
    """A loop of as many turns as samples: no extrapolation, every step of the search a trace."""

    def trace(batch_size: int) -> Step:
        pieces = [piece(MIB, now, batch_size - 1) for now in range(batch_size)]
        return step(pieces, batch_size=batch_size)

    tracer = Tracer(trace)
    assert tracer.largest(in_one_region(100)) == 100
    assert {100, 101} <= set(tracer.asked)
    assert len(tracer.asked) < 16


def test_a_model_of_one_batch_size() -> None:
    """There is no other trace: it is that batch, or none."""
    made = of_memory(lambda batch: 10 * batch)(4)
    trace = Tracer(of_memory(lambda batch: 10 * batch))
    assert largest_batch(trace, made, None, in_one_region(40)) == 4
    assert largest_batch(trace, made, None, in_one_region(39)) == 0
    assert trace.asked == []


def test_what_does_not_grow_fits_at_any_batch() -> None:
    """The search ends at a batch that nobody uses."""
    trace = Tracer(of_memory(lambda _batch: 10))
    assert trace.largest(in_one_region(10)) == MOST_BATCH
