"""A probe, which is a few real steps, and an estimate calibrated by it.  Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from gpuconf.footprint.correction import Correction, Measured, TracedAt, correction_by, ratios_of
from gpuconf.footprint.memory_estimate import GPU, SIMULATED_CARD, MemoryEstimate
from gpuconf.units import MIB, sized

# The steps of the probe are small: so quick on a simulated card, and so likely to fit on a GPU.
_BUDGET_BYTES = 1024 * MIB
_SMALL_BATCH = 4  # where even that takes more
# So far apart that the trace must have missed something, and the user should know.
_FAR_OFF = 1.25
_FIRST_STEP_EXTRA = 1.05
_SHARE_OF_SEARCH = 50


class Probe(NamedTuple):
    """What a child measured on a card: ``tier`` is ``simulated-card`` or ``GPU``.

    ``measured`` are one or two batches, the smaller first: a model that is built for one batch
    size has one.  They are of the second step at each; ``first_step_bytes`` is the most in use
    during the first ones, in which cuDNN tries its algorithms.
    """

    tier: str
    card: str
    measured: tuple[Measured, ...]
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
    """The traced peak; not traced where it is far too large, as a share of the estimate tells."""
    share = estimate.peak_bytes * batch_size // estimate.batch_size
    return share if share > 2 * _BUDGET_BYTES else traced_at(batch_size)


def calibrated(estimate: MemoryEstimate, probe: Probe, traced_at: TracedAt) -> MemoryEstimate:
    """The estimate with its peak as the probe corrects it, and notes of how far off the trace was.

    Where a limit was given, the largest batch is looked for again; each batch that is tried costs
    a call of ``traced_at``.  Layers, phases, timeline and advice stay as they were traced.
    """
    traced_at = functools.cache(traced_at)
    correction = correction_by(estimate, probe.measured, traced_at)
    corrected = correction.of(estimate.peak_bytes, estimate.batch_size)
    # What stays between steps was not measured, but is known.
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
    while bad - good > max(1, good // _SHARE_OF_SEARCH):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if runs(middle) else (good, middle)
    return good


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
    estimate: MemoryEstimate, probe: Probe, correction: Correction, traced_at: TracedAt
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
