"""A MemoryEstimate as ``gpuconf estimate --json`` prints it: configs/estimate.schema.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpuconf.footprint.budget import Budget
from gpuconf.footprint.memory_estimate import Advice, LayerRow, MemoryEstimate, Moment, Phase, Tier
from gpuconf.footprint.peak_sum import peak_kinds
from gpuconf.footprint.step import Part, TraceSetting
from gpuconf.hardware.reserve import CONTEXT_BYTES
from gpuconf.json_shape import Bytes, Count, FromOne
from gpuconf.reporting.thinning import thinned

_MOST_MOMENTS = 100


class PeakDocument(NamedTuple):
    """The operation of the step at which the most is in use."""

    operation: str
    """Its name in the graph."""
    layer: str | None
    """The path of its layer; None where it is of none."""
    part: Part
    """The part of the step."""
    bytes_by_kind: dict[str, int]
    """Bytes by what they are for; together the peak."""


class PlacedMoment(NamedTuple):
    """What is in use during an operation."""

    position: Count
    """The operation's place in the step, from 0."""
    part: Part
    """The part of the step."""
    layer: str | None
    """The path of its layer; None where it is of none."""
    operation: str
    """Its name in the graph."""
    bytes_by_kind: dict[str, int]
    """Bytes by what they are for."""
    total_bytes: Bytes
    """All that is in use."""


@dataclass(frozen=True, slots=True)
class GpuNow:
    """A GPU of this machine, now."""

    index: Count
    """As nvidia-smi counts."""
    name: str | None
    """Its name."""
    total_bytes: Bytes | None
    """Its memory."""
    free_bytes: Bytes | None
    """What is free of it."""


class CardDocument(NamedTuple):
    """What else lies on the card, and where the limit comes from."""

    context_bytes: Bytes
    """The CUDA context, about; not in any of the other numbers."""
    limit_source: str | None
    """Where the limit comes from; None without one."""
    arithmetic: tuple[str, ...]
    """The sum that led to it."""
    gpu: GpuNow | None
    """This machine's GPU; None where there is none."""


class EstimateDocument(NamedTuple):
    """What a model costs at a batch size."""

    target: str
    """What was estimated: a file, or module:model."""
    batch_size: FromOne
    """Samples in a step."""
    peak_bytes: Bytes
    """The most in use during a step, of the framework's allocator."""
    resident_bytes: Bytes
    """What stays between steps: weights, optimizer state, metrics."""
    largest_batch: Count | None
    """The largest that fits the limit; 0 where no sample does, None without a limit."""
    limit_bytes: Bytes | None
    """What the framework may use; None where no limit was given."""
    fits: bool | None
    """Whether this batch fits the limit; None without one."""
    tier: Tier
    """How the numbers were obtained."""
    setting: TraceSetting | None
    """What was estimated."""
    peak: PeakDocument
    """Where the most is in use."""
    workspace_bytes: Bytes
    """Allowance for libraries at the peak, such as cuDNN."""
    constant_bytes: Bytes
    """Constants of the graph at the peak."""
    rounding_bytes: Bytes
    """What the allocator's chunks are larger than was asked for, at the peak."""
    layers: tuple[LayerRow, ...]
    """What is in memory at the peak, the largest layer first; together the traced peak."""
    phases: tuple[Phase, ...]
    """The need by batch: the resident bytes and the largest of these, before rounding."""
    advice: tuple[Advice, ...]
    """Changes, and what a trace says of each."""
    card: CardDocument
    """What else lies on the card, and where the limit comes from."""
    timeline: tuple[PlacedMoment, ...]
    """Telling moments of the step, the peak among them."""
    notes: tuple[str, ...]
    """What was assumed or left out."""
    plot: str | None
    """The picture's path; None where none was drawn."""


def document_of(
    estimate: MemoryEstimate, budget: Budget | None = None, *, target: str, plot: str | None
) -> EstimateDocument:
    """Everything that is known, sizes in bytes, unknown as None; the timeline is thinned."""
    return EstimateDocument(
        target=target,
        batch_size=estimate.batch_size,
        peak_bytes=estimate.peak_bytes,
        resident_bytes=estimate.resident_bytes,
        largest_batch=estimate.largest_batch,
        limit_bytes=estimate.limit_bytes,
        fits=estimate.fits,
        tier=estimate.tier,
        setting=estimate.setting,
        peak=PeakDocument(*estimate.peak, bytes_by_kind=peak_kinds(estimate)),
        workspace_bytes=estimate.workspace_bytes,
        constant_bytes=estimate.constant_bytes,
        rounding_bytes=estimate.rounding_bytes,
        layers=estimate.layers,
        phases=estimate.phases,
        advice=estimate.advice,
        card=_card(budget or Budget()),
        timeline=_timeline(estimate.timeline),
        notes=estimate.notes,
        plot=plot,
    )


def _card(budget: Budget) -> CardDocument:
    gpu = budget.gpu
    now = None if gpu is None else GpuNow(gpu.index, gpu.name, gpu.total_bytes, gpu.free_bytes)
    return CardDocument(CONTEXT_BYTES, budget.source, budget.arithmetic, now)


def _timeline(moments: tuple[Moment, ...]) -> tuple[PlacedMoment, ...]:
    """The moments that matter, with their places among the operations of the step."""
    totals = [moment.total_bytes for moment in moments]
    return tuple(
        PlacedMoment(place, *moments[place], total_bytes=totals[place])
        for place in thinned(totals, _MOST_MOMENTS)
    )
