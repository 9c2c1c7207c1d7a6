"""A batch that should fit, from two measured ones.  Pure arithmetic.

The line through two points is an extrapolation.  The peak is a maximum over phases: flat where the
optimizer's update dominates, and rising where the activations do. So, beyond the two points, the
line may be too low or too high. The margin allows for that, and the suggestion includes the command
to try it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gpuconf.basics.json_shape import Bytes, FromOne
from gpuconf.basics.units import MIB

MARGIN = 0.05  # of the limit, kept free
NEARLY_FULL = 0.8  # of the limit: a lower peak leaves room for a larger batch
_MOST_TIMES = 16  # the largest measured batch: beyond that, the line means nothing


class Measurement(NamedTuple):
    """The peak measured with one batch size."""

    batch: FromOne
    """The number of examples in the batch."""
    peak_bytes: Bytes
    """The most memory that TensorFlow's allocator had in use."""


class Suggestion(NamedTuple):
    """The largest batch that the line puts below the limit less the margin."""

    batch: FromOne | None
    """The batch size; None if there is none."""
    why_not: str | None = None
    """Why there is none, in a sentence."""
    per_example_bytes: float | None = None
    """The slope of the line: memory per example."""
    fixed_bytes: float | None = None
    """The intercept of the line: memory that does not depend on the batch."""
    expected_bytes: int | None = None
    """The expected peak with that batch, by the line."""
    measured_bytes: Bytes | None = None
    """The measured peak with that batch; None if it was not run."""
    is_all_data: bool = False
    """Whether the batch contains all examples, even if the GPU has room for more."""
    failed: FromOne | None = None
    """The smallest batch that was run and did not fit."""


def suggest(
    measurements: tuple[Measurement, ...],
    limit_bytes: int,
    *,
    failed: int | None = None,
    examples: int | None = None,
    kept_bytes: int | None = None,
) -> Suggestion:
    """The largest batch under ``limit_bytes`` on the line through the two largest measurements.

    ``kept_bytes`` is the size of the weights and the optimizer's state, which do not depend on the
    batch. The smaller measurement may be too high, because the allocator rounds up, which makes the
    line too flat. So a second line is computed, from ``kept_bytes`` at batch 0 through the largest
    measurement, and the higher one is used. ``failed`` is the smallest batch that ran out of
    memory. The suggestion stays below it, and is at most ``examples``, the total number, and at
    most 16 times the largest measured batch.
    """
    by_batch = {point.batch: point for point in measurements}
    points = sorted(by_batch.values())[-2:]
    if len(points) < 2:
        return Suggestion(None, "a line needs two batches that fit, but there are fewer")
    (small, small_peak), (large, large_peak) = points
    slope = (large_peak - small_peak) / (large - small)
    fixed = small_peak - slope * small
    room = limit_bytes * (1 - MARGIN)
    if slope * large < max(large_peak * 0.01, MIB):
        why_not = (
            f"the peak hardly changes between batches of {small} and {large}: "
            "activations do not dominate it, and two points say nothing about larger batches"
        )
        return Suggestion(None, why_not, slope, fixed)
    if kept_bytes is not None and room > large_peak > kept_bytes:
        slope = max(slope, (large_peak - kept_bytes) / large)
        fixed = large_peak - slope * large
    most = min(math.floor((room - fixed) / slope), large * _MOST_TIMES)
    most = min(most, most if failed is None else failed - 1)
    is_all_data = examples is not None and examples <= most
    most = examples if is_all_data and examples is not None else most
    if most < 1:
        why_not = (
            "according to the line through the two measured batches, not even one example would fit"
        )
        return Suggestion(None, why_not, slope, fixed)
    batch = most if is_all_data else sensible(most)
    if large_peak <= room and batch < large:
        batch = large  # rounding down must not go below a measured batch
    expected = round(fixed + slope * batch)
    measured = by_batch[batch].peak_bytes if batch in by_batch else None
    return Suggestion(batch, None, slope, fixed, expected, measured, is_all_data)


def between(fits: int, fails: int) -> int | None:
    """A batch about halfway between one that fits and one that does not; None if there is none."""
    batch = sensible((fits + fails) // 2)
    return batch if fits < batch < fails else None


def sensible(most: int) -> int:
    """The largest round batch size up to ``most``.

    A multiple of the power of two that is at most a quarter of it, and at most 32: 7 -> 7, 13 ->
    12, 29 -> 28, 100 -> 96, 1000 -> 992.
    """
    if most < 8:
        return most
    step = min(32, 2 ** (int(math.log2(most)) - 2))
    return int(most // step * step)
