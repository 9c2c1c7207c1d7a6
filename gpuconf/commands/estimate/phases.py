"""The step's memory as a maximum over phases, each ``base + per_sample * batch``.

Two traces at different batch sizes have the same operations, and the live memory during each one
grows linearly with the batch.  The upper envelope of these lines gives the phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from gpuconf.commands.estimate.memory_estimate import Phase
from gpuconf.commands.estimate.step import Step

MOST_BATCH = 1 << 20


class _Line(NamedTuple):
    per_sample: float
    base: float
    operation: int


def are_alike(one: Step, other: Step) -> bool:
    """Whether two traces differ only in sizes."""
    return len(one.operations) == len(other.operations) and _course(one) == _course(other)


def _course(step: Step) -> list[tuple[int, int, int | None]]:
    return [(piece.first, piece.last, piece.goes_on_from) for piece in step.pieces]


def scaled(one: Step, other: Step, batch_size: int) -> Step:
    """Return the trace expected at another batch size, from two that are alike."""
    share = (batch_size - one.batch_size) / (other.batch_size - one.batch_size)
    pieces = tuple(
        small._replace(size_bytes=_between(small.size_bytes, large.size_bytes, share))
        for small, large in zip(one.pieces, other.pieces, strict=True)
    )
    spare = _between(one.spare_bytes, other.spare_bytes, share)
    return one._replace(batch_size=batch_size, pieces=pieces, spare_bytes=spare)


def _between(small: int, large: int, share: float) -> int:
    return max(0, round(small + share * (large - small)))


def live_bytes(step: Step) -> list[int]:
    """Return the requested bytes that are live during each operation, without the variables."""
    change = [0] * (len(step.operations) + 1)
    for piece in step.pieces:
        change[piece.first] += piece.size_bytes
        change[piece.last + 1] -= piece.size_bytes
    return list(accumulate(change[:-1]))


def phases_of(one: Step, other: Step) -> tuple[Phase, ...]:
    """Return the phases from batch 1 on; none if the two traces are not alike."""
    if not are_alike(one, other):
        return ()
    rise = other.batch_size - one.batch_size
    lines = []
    for number, (small, large) in enumerate(zip(live_bytes(one), live_bytes(other), strict=True)):
        per_sample = (large - small) / rise
        lines.append(_Line(per_sample, small - per_sample * one.batch_size, number))
    return tuple(_phase(one, line, first) for line, first in _envelope(lines))


def _envelope(lines: Sequence[_Line]) -> list[tuple[_Line, int]]:
    """Return the lines that are highest at some whole batch from 1 on, and where they begin."""
    batch, found = 1, []
    while lines and batch <= MOST_BATCH:
        top = max(lines, key=lambda line: (line.base + line.per_sample * batch, line.per_sample))
        found.append((top, batch))
        batch, lines = _next(lines, top, batch)
    return found


def _next(lines: Sequence[_Line], top: _Line, batch: int) -> tuple[int, Sequence[_Line]]:
    """Return the first batch size at which a steeper line is higher, and all steeper lines."""
    steeper = [line for line in lines if line.per_sample > top.per_sample]
    crossings = [(top.base - line.base) / (line.per_sample - top.per_sample) for line in steeper]
    first = min((int(crossing) + 1 for crossing in crossings), default=MOST_BATCH + 1)
    return max(first, batch + 1), steeper


def _phase(step: Step, line: _Line, first_batch: int) -> Phase:
    operation = step.operations[line.operation]
    return Phase(
        round(line.base),
        line.per_sample,
        first_batch,
        operation.name,
        operation.layer,
        operation.part,
    )
