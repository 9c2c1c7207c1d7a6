"""The batch that a rehearsal suggests: one that it has run, with its peak."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.json_shape import Bytes, FromOne

MARGIN = 0.05  # of the limit, kept free
NEARLY_FULL = 0.8  # of the limit: a lower peak leaves room for a larger batch


class Measurement(NamedTuple):
    """The peak measured with one batch size."""

    batch: FromOne
    """The number of examples in the batch."""
    peak_bytes: Bytes
    """The most memory that TensorFlow's allocator had in use."""


class Suggestion(NamedTuple):
    """The largest batch that was run and stayed below the limit less the margin."""

    batch: FromOne | None
    """The batch size; None if there is none."""
    why_not: str | None = None
    """Why there is none, in a sentence."""
    measured_bytes: Bytes | None = None
    """The measured peak with that batch."""
    is_all_data: bool = False
    """Whether the batch contains all examples, even if the GPU has room for more."""
    failed: FromOne | None = None
    """The smallest batch that was run and did not fit."""
