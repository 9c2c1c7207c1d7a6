"""What a trace missed, as a few measured steps tell it: to be added to traced peaks.  Pure.

Two batches give it as ``base + per_sample * batch``: a base such as scratch memory of kernels, and
what each sample takes more or less than was counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuconf.footprint.memory_estimate import MemoryEstimate
from gpuconf.units import sized

# Beyond these a sample's measured cost is that of something else than what was traced.
_LEAST_RATIO, _MOST_RATIO = 0.5, 2.0
# A trace that bends more than this between the probe and the batch has another phase there.
_MOST_BEND = 1.33

# The traced peak at a batch size, in bytes.
TracedAt = Callable[[int], int]


class Measured(NamedTuple):
    """The most in use during a step at a batch size, in bytes of TensorFlow's allocator."""

    batch_size: int
    peak_bytes: int


class Correction(NamedTuple):
    """What to add to a traced peak: ``anchor_bytes`` at ``anchor_batch``, and more per sample.

    What is left is at least the share ``least_ratio`` of the trace: small differences, carried to
    a batch many times as large, must not take off more than was seen.  ``note`` says why less is
    corrected than was measured.
    """

    anchor_batch: int
    anchor_bytes: float
    per_sample_bytes: float = 0.0
    least_ratio: float = 1.0
    note: str | None = None

    def of(self, traced_bytes: int, batch_size: int) -> float:
        """The corrected peak for a traced one, in bytes."""
        more = self.anchor_bytes + self.per_sample_bytes * (batch_size - self.anchor_batch)
        return max(traced_bytes + more, min(1.0, self.least_ratio) * traced_bytes)


def correction_by(
    estimate: MemoryEstimate, measured: Sequence[Measured], traced_at: TracedAt
) -> Correction:
    """What the trace missed at the measured batches, as far as it can be carried to the estimate's.

    Under-estimates are worse than over-estimates: where it cannot be told what a larger batch
    would have shown, nothing is taken off.
    """
    missed = {each.batch_size: each.peak_bytes - traced_at(each.batch_size) for each in measured}
    ratios = ratios_of(measured, traced_at)
    per_sample, note = _missed_per_sample(measured, traced_at)
    size, large = estimate.batch_size, measured[-1].batch_size
    if size in missed or len(measured) == 1:
        at = size if size in missed else large
        return Correction(at, missed[at], per_sample, ratios[at])
    if _bends(estimate, measured, traced_at):
        note = (
            f"batch {size} has its peak in another part of the step than batch {large}, of which "
            "the probe tells little: nothing is taken off"
        )
        return Correction(large, max(0, *missed.values()), note=note)
    at_large = missed[large] if note is None else max(missed.values())
    return Correction(large, at_large, per_sample, max(ratios.values()), note)


def ratios_of(measured: Sequence[Measured], traced_at: TracedAt) -> dict[int, float]:
    return {
        each.batch_size: each.peak_bytes / max(1, traced_at(each.batch_size)) for each in measured
    }


def _missed_per_sample(
    measured: Sequence[Measured], traced_at: TracedAt
) -> tuple[float, str | None]:
    """Bytes that a sample takes beyond its trace; 0 and why, where the two are too far apart."""
    if len(measured) == 1:
        return 0.0, None
    real, traced = _rises(measured, traced_at)
    if _LEAST_RATIO * traced <= real <= _MOST_RATIO * traced:
        return real - traced, None
    note = (
        f"a sample more took {sized(real)}, and {sized(traced)} in the trace: too far "
        "apart to tell of other batches, so it is not counted by the sample"
    )
    return 0.0, note


def _rises(measured: Sequence[Measured], traced_at: TracedAt) -> tuple[float, float]:
    """Bytes by which a sample more raises the peak between two batches: measured, and traced."""
    small, large = measured
    rise = large.batch_size - small.batch_size
    traced = traced_at(large.batch_size) - traced_at(small.batch_size)
    return (large.peak_bytes - small.peak_bytes) / rise, traced / rise


def _bends(estimate: MemoryEstimate, measured: Sequence[Measured], traced_at: TracedAt) -> bool:
    """Whether the trace rises otherwise from the larger measured batch on than between the two."""
    _, within = _rises(measured, traced_at)
    large = measured[-1].batch_size
    beyond = (estimate.peak_bytes - traced_at(large)) / (estimate.batch_size - large)
    return not beyond / _MOST_BEND <= within <= beyond * _MOST_BEND
