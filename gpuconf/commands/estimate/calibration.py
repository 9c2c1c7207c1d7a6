"""A probe, which runs a few real steps, and an estimate calibrated by it.  Pure.

Measurements at two batch sizes give the error of the trace as ``base + per_sample * batch``.  The
base is, for example, scratch memory of kernels; the other term is the error per sample.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuconf.basics.units import MIB, sized
from gpuconf.commands.estimate.largest_batch import bisected
from gpuconf.commands.estimate.memory_estimate import GPU, SIMULATED_CARD, MemoryEstimate

# Outside this range, the measured memory of a sample is not that of the traced step.
_LEAST_RATIO, _MOST_RATIO = 0.5, 2.0
# A trace that bends more between the probe's batch and the estimate's has another phase there.
_MOST_BEND = 1.33
# The probe's steps are small, so that they are quick on a simulated GPU and likely to fit on a
# GPU.
_BUDGET_BYTES = 1024 * MIB
_SMALL_BATCH = 4  # if even that takes more
# A larger error means that the trace missed something, which the user should know.
_FAR_OFF = 1.25
_FIRST_STEP_EXTRA = 1.05
_SHARE_OF_SEARCH = 50

# The traced peak at a batch size, in bytes.
TracedAt = Callable[[int], int]


class MeasuredPeak(NamedTuple):
    """The peak of a step at a batch size, in bytes of TensorFlow's allocator."""

    batch_size: int
    peak_bytes: int


class Correction(NamedTuple):
    """What to add to a traced peak: ``anchor_bytes`` at ``anchor_batch``, plus more per sample.

    The result is at least ``least_ratio`` times the trace, so that a small difference, extrapolated
    to a much larger batch, subtracts no more than was measured.  ``note`` says why the correction
    is smaller than the measured error.
    """

    anchor_batch: int
    anchor_bytes: float
    per_sample_bytes: float = 0.0
    least_ratio: float = 1.0
    note: str | None = None

    def of(self, traced_bytes: int, batch_size: int) -> float:
        """Return the corrected peak for a traced one, in bytes."""
        more = self.anchor_bytes + self.per_sample_bytes * (batch_size - self.anchor_batch)
        return max(traced_bytes + more, min(1.0, self.least_ratio) * traced_bytes)


def correction_by(
    estimate: MemoryEstimate, measured: Sequence[MeasuredPeak], traced_at: TracedAt
) -> Correction:
    """Return the trace's error at the measured batches, as far as it applies to the estimate.

    Underestimates are worse than overestimates: nothing is subtracted if the behavior at a larger
    batch is unknown.
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
            "the probe shows little: nothing is taken off"
        )
        return Correction(large, max(0, *missed.values()), note=note)
    at_large = missed[large] if note is None else max(missed.values())
    return Correction(large, at_large, per_sample, max(ratios.values()), note)


def ratios_of(measured: Sequence[MeasuredPeak], traced_at: TracedAt) -> dict[int, float]:
    return {
        each.batch_size: each.peak_bytes / max(1, traced_at(each.batch_size)) for each in measured
    }


def _missed_per_sample(
    measured: Sequence[MeasuredPeak], traced_at: TracedAt
) -> tuple[float, str | None]:
    """Return the error in bytes per sample; 0 and the reason if measurement and trace disagree."""
    if len(measured) == 1:
        return 0.0, None
    real, traced = _rises(measured, traced_at)
    if _LEAST_RATIO * traced <= real <= _MOST_RATIO * traced:
        return real - traced, None
    note = (
        f"one more sample took {sized(real)}, and {sized(traced)} in the trace: too far "
        "apart for other batches, so it is not counted by the sample"
    )
    return 0.0, note


def _rises(measured: Sequence[MeasuredPeak], traced_at: TracedAt) -> tuple[float, float]:
    """Return the bytes per additional sample between the two batches: measured and traced."""
    small, large = measured
    rise = large.batch_size - small.batch_size
    traced = traced_at(large.batch_size) - traced_at(small.batch_size)
    return (large.peak_bytes - small.peak_bytes) / rise, traced / rise


def _bends(estimate: MemoryEstimate, measured: Sequence[MeasuredPeak], traced_at: TracedAt) -> bool:
    """Whether the trace's slope beyond the larger measured batch differs from that below it."""
    _, within = _rises(measured, traced_at)
    large = measured[-1].batch_size
    beyond = (estimate.peak_bytes - traced_at(large)) / (estimate.batch_size - large)
    return not beyond / _MOST_BEND <= within <= beyond * _MOST_BEND


class CardProbe(NamedTuple):
    """What a child process measured on a GPU; ``tier`` is ``simulated-card`` or ``GPU``.

    ``measured`` has one or two batches, the smaller first; a model built for one batch size has
    one.  The values are for the second step at each batch.  ``first_step_bytes`` is the peak of the
    first steps, in which cuDNN tries its algorithms.
    """

    tier: str
    card: str
    measured: tuple[MeasuredPeak, ...]
    first_step_bytes: int | None = None
    notes: tuple[str, ...] = ()


def probed_batches(estimate: MemoryEstimate, traced_at: TracedAt) -> tuple[int, int]:
    """Return two batch sizes to measure: the estimate's and its half, if that is small enough.

    Otherwise the larger one is the largest of half, a quarter and so on whose traced step takes at
    most 1 GiB, because at a small batch another phase of the step may determine the peak.  4 and 2
    if even those take more.
    """
    large = max(2, estimate.batch_size)
    while large > _SMALL_BATCH and _peak_at(large, estimate, traced_at) > _BUDGET_BYTES:
        large = max(_SMALL_BATCH, large // 2)
    return large // 2, large


def _peak_at(batch_size: int, estimate: MemoryEstimate, traced_at: TracedAt) -> int:
    """Return the traced peak; if a share of the estimate is far too large, return that instead."""
    share = estimate.peak_bytes * batch_size // estimate.batch_size
    return share if share > 2 * _BUDGET_BYTES else traced_at(batch_size)


def calibrated(estimate: MemoryEstimate, probe: CardProbe, traced_at: TracedAt) -> MemoryEstimate:
    """Return the estimate with its peak corrected by the probe, and notes on the trace's error.

    With a limit, the largest batch is searched again; each candidate costs a call of ``traced_at``.
    Layers, phases, timeline and advice remain as traced.
    """
    traced_at = functools.cache(traced_at)
    correction = correction_by(estimate, probe.measured, traced_at)
    corrected = correction.of(estimate.peak_bytes, estimate.batch_size)
    # The memory that stays between steps was not measured, but is known.
    peak_bytes = max(round(corrected), estimate.resident_bytes)
    largest = estimate.largest_batch
    if largest:
        largest = _largest_batch(largest, correction, traced_at)
    return estimate._replace(
        peak_bytes=peak_bytes,
        largest_batch=largest,
        tier=probe.tier,
        notes=(*estimate.notes, *_notes(estimate, probe, correction, traced_at)),
    )


def _largest_batch(traced_largest: int, correction: Correction, traced_at: TracedAt) -> int:
    """Return the largest batch whose corrected peak fits what the trace could use of the limit.

    That is the traced peak of the largest batch that fits without a correction; the allocator
    cannot use the rest of the limit.  The result is within 2 % and never too large, because each
    step of the search needs a trace.
    """
    usable_bytes = traced_at(traced_largest)

    def runs(batch: int) -> bool:
        return correction.of(traced_at(batch), batch) <= usable_bytes

    good, bad = _bounds(_guess(traced_largest, correction, traced_at), runs)
    return bisected(runs, good, bad, share=_SHARE_OF_SEARCH)


def _guess(traced_largest: int, correction: Correction, traced_at: TracedAt) -> int:
    """Guess the largest batch by linear interpolation; a good guess saves traces."""

    def corrected(batch: int) -> float:
        return correction.of(traced_at(batch), batch)

    half = max(1, traced_largest // 2)
    rise = (corrected(traced_largest) - corrected(half)) / max(1, traced_largest - half)
    over = corrected(traced_largest) - traced_at(traced_largest)
    return max(1, min(round(traced_largest - over / max(1.0, rise)), 2 * traced_largest))


def _bounds(start: int, runs: Callable[[int], bool]) -> tuple[int, int]:
    """Search in growing steps for a batch that runs (0 if none does) and one that does not."""
    stride = max(1, start // _SHARE_OF_SEARCH)
    if runs(start):
        good = start
        while runs(good + stride) and stride < start:
            good, stride = good + stride, stride * 2
        return good, good + stride
    bad = start
    while bad > stride and not runs(bad - stride):
        bad, stride = bad - stride, stride * 2
    good = bad - stride
    if good < 1:
        return (1, bad) if bad > 1 and runs(1) else (0, 1)
    return good, bad


def _notes(
    estimate: MemoryEstimate, probe: CardProbe, correction: Correction, traced_at: TracedAt
) -> tuple[str, ...]:
    ratios = ratios_of(probe.measured, traced_at)
    compared = " and ".join(
        f"{ratio:.2f} × traced at batch {batch}" for batch, ratio in ratios.items()
    )
    where = "the simulated GPU" if probe.tier == SIMULATED_CARD else probe.card
    more_bytes = correction.of(estimate.peak_bytes, estimate.batch_size) - estimate.peak_bytes
    makes = "changes nothing" if abs(more_bytes) < 0.005 * MIB else f"makes {_signed(more_bytes)}"
    applied = f"which {makes} at batch {estimate.batch_size}"
    notes = [f"probed on {where}: measured {compared}, {applied}"]
    if correction.note is not None:
        notes.append(correction.note)
    if any(not 1 / _FAR_OFF <= ratio <= _FAR_OFF for ratio in ratios.values()):
        notes.append("the trace was far off, so layers and phases are only rough")
    first, largest = probe.first_step_bytes, max(each.peak_bytes for each in probe.measured)
    if probe.tier == GPU and first is not None and first > _FIRST_STEP_EXTRA * largest:
        notes.append(
            f"the first step took {sized(first - largest)} more, where cuDNN tries its "
            "algorithms; it does with less where less is free"
        )
    return (*notes, *probe.notes)


def _signed(size_bytes: float) -> str:
    return f"{'+' if size_bytes >= 0 else '−'}{sized(abs(size_bytes))}"
