"""Reduces a long series to its significant points: no peak or valley is lost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def thinned(values: Sequence[float], most: int) -> list[int]:
    """The indices of at most ``most`` values: the first, lowest and highest of each interval.

    They are in order and include the overall maximum.  If there are no more than ``most`` values,
    all indices are returned.
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = max(1, most // 3)
    edges = [count * number // stretches for number in range(stretches + 1)]
    kept: set[int] = set()
    for first, end in pairwise(edges):
        stretch = range(first, end)
        kept |= {
            first,
            min(stretch, key=values.__getitem__),
            max(stretch, key=values.__getitem__),
        }
    return sorted(kept)
