"""A long series by its telling points: no peak and no valley is lost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def thinned(values: Sequence[float], most: int) -> list[int]:
    """The places of at most ``most`` values: of each stretch the first, the lowest, the highest.

    They are in order, and the largest of all is among them; all places where there are no more
    than that.
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
