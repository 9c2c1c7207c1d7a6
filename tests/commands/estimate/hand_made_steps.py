"""Steps made by hand, without any framework: what sums, formulas and searches are tried with."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    BACKWARD,
    FORWARD,
    OPTIMIZER_STATE,
    UPDATE,
    WEIGHTS,
    Operation,
    Piece,
    Step,
    StepMemory,
    Variable,
)

PARTS = (FORWARD, BACKWARD, UPDATE)
MOST_OPERATIONS = 8
NO_MEMORY = StepMemory(0, 0, 0, (), 0, ())


def operations(count: int) -> tuple[Operation, ...]:
    """``count`` of them: a third each forward, backward and update, of two layers in turn."""
    return tuple(
        Operation(f"op{number}", PARTS[number * 3 // count], f"layer{number % 2}")
        for number in range(count)
    )


def piece(size: int, first: int, last: int, kind: str = ACTIVATION) -> Piece:
    """A piece."""
    return Piece(size, first, last, kind)


def weight(size: int, name: str = "kernel", layer: str | None = "layer0") -> Variable:
    """A weight of this size."""
    return Variable(name, size, WEIGHTS, layer)


def state(size: int, name: str = "momentum", layer: str | None = "layer0") -> Variable:
    """State of an optimizer, of this size."""
    return Variable(name, size, OPTIMIZER_STATE, layer)


def step(
    pieces: Sequence[Piece],
    *,
    count: int | None = None,
    variables: Sequence[Variable] = (),
    batch_size: int = 1,
) -> Step:
    """A step of as many operations as the pieces need, or ``count``, that has not run."""
    most = max((each.last for each in pieces), default=0) + 1
    made = operations(most if count is None else count)
    return Step(batch_size, tuple(variables), made, tuple(pieces), NO_MEMORY)


def ran(made: Step, *, built_bytes: int = 0) -> Step:
    """The step with the memory that a run of it would report: all that is requested, unrounded."""
    in_use = tuple(
        made.resident_bytes + _live_bytes(made, now) for now in range(len(made.operations))
    )
    peak = in_use.index(max(in_use))
    live = (n for n, each in enumerate(made.pieces) if each.first <= peak <= each.last)
    most = in_use[peak]
    memory = StepMemory(built_bytes, most, most, in_use, peak, tuple(live))
    return made._replace(memory=memory)


@st.composite
def growing_pieces(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Some (base, per_sample, first, last), bytes and positions."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        first = draw(st.integers(0, MOST_OPERATIONS - 1))
        last = draw(st.integers(first, MOST_OPERATIONS - 1))
        base = draw(st.one_of(st.just(0), st.integers(0, 64 * MIB)))
        per_sample = draw(st.one_of(st.just(0), st.integers(0, 4 * MIB)))
        found.append((base, per_sample, first, last))
    return sorted(found, key=lambda each: each[2])


def at_batch(growing: Sequence[tuple[int, int, int, int]], batch_size: int) -> Step:
    """The step of such pieces at a batch size, as it ran."""
    pieces = [
        piece(base + per_sample * batch_size, first, last)
        for base, per_sample, first, last in growing
    ]
    return ran(step(pieces, count=MOST_OPERATIONS, batch_size=batch_size))


def need_of(made: Step) -> int:
    """The most that is requested at once, counted operation by operation."""
    return max(_live_bytes(made, now) for now in range(len(made.operations)))


def _live_bytes(made: Step, now: int) -> int:
    return sum(each.size_bytes for each in made.pieces if each.first <= now <= each.last)
