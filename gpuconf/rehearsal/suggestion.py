"""A batch that should fit, from two measured ones.  Pure arithmetic.

The line through two points is an extrapolation: the peak is a maximum over phases, flat where
the optimizer's update rules and rising where the activations do, so that the line through two
points may be too low or too high beyond them.  The margin is for that, and the command to try
the suggestion is given with it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpuconf.units import MIB

MARGIN = 0.05  # of the limit, kept free
_MOST_TIMES = 16  # of the largest measured batch: further out the line means nothing


class Measurement(NamedTuple):
    """The peak in bytes that was measured with a batch of so many examples."""

    batch: int
    peak_bytes: int


class Suggestion(NamedTuple):
    """``batch`` is the largest that the line puts under the limit less the margin.

    None where there is none: ``why_not`` says why in a sentence.  ``per_example_bytes`` and
    ``fixed_bytes`` are the line.
    """

    batch: int | None
    why_not: str | None = None
    per_example_bytes: float | None = None
    fixed_bytes: float | None = None
    expected_bytes: int | None = None

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return self._asdict()


def suggest(
    measurements: tuple[Measurement, ...],
    limit_bytes: int,
    *,
    failed: int | None = None,
    examples: int | None = None,
) -> Suggestion:
    """The largest batch under ``limit_bytes`` by the line through the two largest measurements.

    ``failed`` is the smallest batch that ran out of memory; the suggestion stays below it, and
    never above ``examples``, which is all there are, nor above 16 times what was measured.
    """
    by_batch = {point.batch: point for point in measurements}
    points = sorted(by_batch.values())[-2:]
    if len(points) < 2:
        return Suggestion(None, "two batches that fit are needed for a line, and there are not two")
    (small, small_peak), (large, large_peak) = points
    slope = (large_peak - small_peak) / (large - small)
    fixed = small_peak - slope * small
    room = limit_bytes * (1 - MARGIN)
    if slope * large < max(large_peak * 0.01, MIB):
        why_not = (
            f"the peak hardly changes between batches of {small} and {large}: it is not "
            "the activations that rule it, and two points say nothing of larger batches"
        )
        return Suggestion(None, why_not, slope, fixed)
    most = min(math.floor((room - fixed) / slope), large * _MOST_TIMES)
    most = min(most, most if failed is None else failed - 1, examples or most)
    if most < 1:
        why_not = "by the line through the two measured batches not even one example would fit"
        return Suggestion(None, why_not, slope, fixed)
    batch = sensible(most)
    if large_peak <= room and batch < large:
        batch = large  # it was measured: rounding down must not take it back
    return Suggestion(batch, None, slope, fixed, round(fixed + slope * batch))


def sensible(most: int) -> int:
    """The largest batch up to ``most`` that a person would choose.

    A multiple of the power of two that is at most a quarter of it, and at most 32: 7 -> 7,
    13 -> 12, 29 -> 28, 100 -> 96, 1000 -> 992.
    """
    if most < 8:
        return most
    step = min(32, 2 ** (int(math.log2(most)) - 2))
    return int(most // step * step)
