"""A probe, which is a few real steps, and an estimate calibrated by it.  Pure.

Two batches give what a trace missed as ``base + per_sample * batch``: a base such as scratch memory
of kernels, and what each sample takes more or less than was counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuconf.footprint.largest_batch import bisected
from gpuconf.footprint.memory_estimate import GPU, SIMULATED_CARD, MemoryEstimate
from gpuconf.units import MIB, sized

# Beyond these a sample's measured cost is that of something else than what was traced.
_LEAST_RATIO, _MOST_RATIO = 0.5, 2.0
# A trace that bends more than this between the probe and the batch has another phase there.
_MOST_BEND = 1.33
# The steps of the probe are small: so quick on a simulated card, and so likely to fit on a GPU.
_BUDGET_BYTES = 1024 * MIB
_SMALL_BATCH = 4  # where even that takes more
# So far apart that the trace must have missed something, and the user should know.
_FAR_OFF = 1.25
_FIRST_STEP_EXTRA = 1.05
_SHARE_OF_SEARCH = 50

# The traced peak at a batch size, in bytes.
TracedAt = Callable[[int], int]


class MeasuredPeak(NamedTuple):
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
    estimate: MemoryEstimate, measured: Sequence[MeasuredPeak], traced_at: TracedAt
) -> Correction:
    """What the trace missed at the measured batches, as far as it can be carried to the estimate's.

    Under-estimates are worse than over-estimates: where it is unknown what a larger batch would
    have shown, nothing is subtracted.
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
    """Bytes that a sample takes beyond its trace; 0 and why, where the two are too far apart."""
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
    """Bytes by which a sample more raises the peak between two batches: measured, and traced."""
    small, large = measured
    rise = large.batch_size - small.batch_size
    traced = traced_at(large.batch_size) - traced_at(small.batch_size)
    return (large.peak_bytes - small.peak_bytes) / rise, traced / rise


def _bends(estimate: MemoryEstimate, measured: Sequence[MeasuredPeak], traced_at: TracedAt) -> bool:
    """Whether the trace rises otherwise from the larger measured batch on than between the two."""
    _, within = _rises(measured, traced_at)
    large = measured[-1].batch_size
    beyond = (estimate.peak_bytes - traced_at(large)) / (estimate.batch_size - large)
    return not beyond / _MOST_BEND <= within <= beyond * _MOST_BEND


class CardProbe(NamedTuple):
    """What a child measured on a card: ``tier`` is ``simulated-card`` or ``GPU``.

    ``measured`` are one or two batches, the smaller first: a model that is built for one batch
    size has one.  They are of the second step at each; ``first_step_bytes`` is the most in use
    during the first ones, in which cuDNN tries its algorithms.
    """

    tier: str
    card: str
    measured: tuple[MeasuredPeak, ...]
    first_step_bytes: int | None = None
    notes: tuple[str, ...] = ()


def probed_batches(estimate: MemoryEstimate, traced_at: TracedAt) -> tuple[int, int]:
    """Two batch sizes to measure for an estimate: its own and half of it, if that is small enough.

    Else the largest half, quarter and so on whose traced step takes no more than 1 GiB, since what
    decides at a small batch may be another phase of the step; 4 and 2 where even those take more.
    """
    large = max(2, estimate.batch_size)
    while large > _SMALL_BATCH and _peak_at(large, estimate, traced_at) > _BUDGET_BYTES:
        large = max(_SMALL_BATCH, large // 2)
    return large // 2, large


def _peak_at(batch_size: int, estimate: MemoryEstimate, traced_at: TracedAt) -> int:
    """The traced peak; not traced where it is far too large, judged by a share of the estimate."""
    share = estimate.peak_bytes * batch_size // estimate.batch_size
    return share if share > 2 * _BUDGET_BYTES else traced_at(batch_size)


def calibrated(estimate: MemoryEstimate, probe: CardProbe, traced_at: TracedAt) -> MemoryEstimate:
    """The estimate with its peak as the probe corrects it, and notes of how far off the trace was.

    Where a limit was given, the largest batch is looked for again; each batch that is tried costs
    a call of ``traced_at``.  Layers, phases, timeline and advice are kept as traced.
    """
    traced_at = functools.cache(traced_at)
    correction = correction_by(estimate, probe.measured, traced_at)
    corrected = correction.of(estimate.peak_bytes, estimate.batch_size)
    # What remains between steps was not measured, but is known.
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
    """The largest batch whose corrected peak is within what the trace could use of the limit.

    That is the traced peak of the largest batch that fits without a correction: the rest of the
    limit is what the allocator cannot use.  Found to within 2 %, and never too large: each step
    of the search is a trace.
    """
    usable_bytes = traced_at(traced_largest)

    def runs(batch: int) -> bool:
        return correction.of(traced_at(batch), batch) <= usable_bytes

    good, bad = _bounds(_guess(traced_largest, correction, traced_at), runs)
    return bisected(runs, good, bad, share=_SHARE_OF_SEARCH)


def _guess(traced_largest: int, correction: Correction, traced_at: TracedAt) -> int:
    """Where it may be, were all this a straight line: near it, few traces decide."""

    def corrected(batch: int) -> float:
        return correction.of(traced_at(batch), batch)

    half = max(1, traced_largest // 2)
    rise = (corrected(traced_largest) - corrected(half)) / max(1, traced_largest - half)
    over = corrected(traced_largest) - traced_at(traced_largest)
    return max(1, min(round(traced_largest - over / max(1.0, rise)), 2 * traced_largest))


def _bounds(start: int, runs: Callable[[int], bool]) -> tuple[int, int]:
    """A batch that runs, 0 if none does, and one that does not; looked for in growing steps."""
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
    where = "the simulated card" if probe.tier == SIMULATED_CARD else probe.card
    more_bytes = correction.of(estimate.peak_bytes, estimate.batch_size) - estimate.peak_bytes
    makes = "changes nothing" if abs(more_bytes) < 0.005 * MIB else f"makes {_signed(more_bytes)}"
    applied = f"which {makes} at batch {estimate.batch_size}"
    notes = [f"probed on {where}: measured {compared}, {applied}"]
    if correction.note is not None:
        notes.append(correction.note)
    if any(not 1 / _FAR_OFF <= ratio <= _FAR_OFF for ratio in ratios.values()):
        notes.append("the trace was far off, so take the layers and the phases with care")
    first, largest = probe.first_step_bytes, max(each.peak_bytes for each in probe.measured)
    if probe.tier == GPU and first is not None and first > _FIRST_STEP_EXTRA * largest:
        notes.append(
            f"the first step took {sized(first - largest)} more, where cuDNN tries its "
            "algorithms; it does with less where less is free"
        )
    return (*notes, *probe.notes)


def _signed(size_bytes: float) -> str:
    return f"{'+' if size_bytes >= 0 else '−'}{sized(abs(size_bytes))}"
