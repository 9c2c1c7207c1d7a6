"""The memory over one step, by what it is for: the data of the picture."""

from __future__ import annotations

from collections import Counter

from gpuconf.footprint.memory_estimate import Moment
from gpuconf.footprint.replay import Replay
from gpuconf.footprint.step import ROUNDING, Step


def timeline(step: Step, replay: Replay) -> tuple[Moment, ...]:
    """What is in use during each operation; what the allocator gives too much is ``rounding``."""
    resident: Counter[str] = Counter()
    for variable in step.variables:
        resident[variable.kind] += variable.size_bytes
    begins: list[list[int]] = [[] for _ in range(len(step.operations) + 1)]
    ends: list[list[int]] = [[] for _ in range(len(step.operations) + 1)]
    for number, piece in enumerate(step.pieces):
        begins[piece.first].append(number)
        ends[piece.last + 1].append(number)
    moments, live = [], resident
    for position, operation in enumerate(step.operations):
        for number in ends[position]:
            live[step.pieces[number].kind] -= step.pieces[number].size_bytes
        for number in begins[position]:
            live[step.pieces[number].kind] += step.pieces[number].size_bytes
        kinds = {kind: size for kind, size in live.items() if size}
        kinds[ROUNDING] = max(0, replay.in_use_bytes[position] - sum(kinds.values()))
        moments.append(Moment(operation.part, operation.layer, operation.name, kinds))
    return tuple(moments)
