"""The stretches of a step, forward, backward, update, and the moments that make its picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuconf.footprint.memory_estimate import Moment
from gpuconf.footprint.step import BACKWARD, FORWARD, UPDATE

COLORS = {FORWARD: "#f4f1ea", BACKWARD: "#e6eef4", UPDATE: "#eef2e6"}
_ORDER = (FORWARD, BACKWARD, UPDATE)
_LEAST_CHANGE = 1 / 2000  # of the peak
_LEAST_SHARE = 0.2  # of a stretch, to be named with it


class Area(NamedTuple):
    """From position ``first`` up to ``end`` the step is there: ``backward``, or two at once."""

    part: str
    first: int
    end: int
    name: str


def telling_places(moments: Sequence[Moment]) -> list[int]:
    """The moments at which the memory has changed visibly, the first and the peak among them.

    Thousands of small operations, as an optimizer has for every weight, would leave the rest a
    sliver of the picture.
    """
    totals = [moment.total_bytes for moment in moments]
    peak = totals.index(max(totals))
    least, kept = totals[peak] * _LEAST_CHANGE, [0]
    for place, moment in enumerate(moments):
        before = moments[kept[-1]].bytes_by_kind
        if place > kept[-1] and (place == peak or _differs(moment.bytes_by_kind, before, least)):
            kept.append(place)
    return kept


def _differs(now: Mapping[str, int], before: Mapping[str, int], least: float) -> bool:
    return any(abs(now.get(kind, 0) - before.get(kind, 0)) > least for kind in {*now, *before})


def areas_of(parts: Sequence[str]) -> list[Area]:
    """Forward, backward, update, each at most once and without gaps.

    A step's operations run when they can, those of one part in the midst of another's: the
    borders are where the fewest are on the wrong side.
    """
    edges = [0, *_borders(parts), len(parts)]
    found = []
    for part, first, end in zip(_ORDER, edges, edges[1:], strict=False):
        if end > first:
            shares = Counter(parts[first:end])
            others = [
                each
                for each in _ORDER
                if each != part and shares[each] >= _LEAST_SHARE * (end - first)
            ]
            found.append(Area(part, first, end, ", ".join([part, *others])))
    return found


def _borders(parts: Sequence[str]) -> tuple[int, int]:
    """Where backward begins, and where update does."""
    # cost[k]: the fewest wrong ones so far, if the step is in part k now; with its borders.
    best: list[tuple[int, tuple[int, int]]] = [(0, (0, 0))] * 3
    for place, part in enumerate(parts):
        wrong = [int(part != each) for each in _ORDER]
        forward, backward, update = best
        ahead = (forward[0], (place, place))
        backward = min(backward, ahead, key=lambda each: each[0])
        update = min(update, (backward[0], (backward[1][0], place)), key=lambda each: each[0])
        best = [
            (forward[0] + wrong[0], (place + 1, place + 1)),
            (backward[0] + wrong[1], (backward[1][0], place + 1)),
            (update[0] + wrong[2], update[1]),
        ]
    return min(best, key=lambda each: each[0])[1]
