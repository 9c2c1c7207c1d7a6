"""A MemoryEstimate as printed by ``gpuconf estimate --json``; see configs/estimate.schema.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpuconf.basics.json_shape import Bytes, Count, FromOne
from gpuconf.commands.estimate.budget import Budget
from gpuconf.commands.estimate.memory_estimate import (
    Advice,
    LayerRow,
    MemoryEstimate,
    Moment,
    Phase,
)
from gpuconf.commands.estimate.peak_sum import peak_kinds
from gpuconf.commands.estimate.step import Part, Tier, TraceSetting
from gpuconf.machine.cards.system_memory import CONTEXT_BYTES
from gpuconf.support.reporting.thinning import thinned

_MOST_MOMENTS = 100


class PeakDocument(NamedTuple):
    """The operation at which the step's memory use peaks."""

    operation: str
    """The operation's name in the graph."""
    layer: str | None
    """The path of the operation's layer; None if it belongs to no layer."""
    part: Part
    """The part of the step."""
    bytes_by_kind: dict[str, int]
    """Bytes by purpose; they add up to the peak."""


@dataclass(frozen=True, slots=True)
class GpuNow:
    """A GPU in this machine at the time of the estimate."""

    index: Count
    """The index that nvidia-smi uses."""
    name: str | None
    """The GPU's name."""
    total_bytes: Bytes | None
    """Total memory of the GPU."""
    free_bytes: Bytes | None
    """Memory that is free now."""


class CardDocument(NamedTuple):
    """Other memory used on the GPU, and the source of the limit."""

    context_bytes: Bytes
    """The approximate size of the CUDA context, which no other number includes."""
    limit_source: str | None
    """The source of the limit; None without a limit."""
    arithmetic: tuple[str, ...]
    """The calculation of the limit."""
    gpu: GpuNow | None
    """This machine's GPU; None without one."""


class EstimateDocument(NamedTuple):
    """The memory that a model needs at a given batch size."""

    target: str
    """What was estimated: a file, or module:model."""
    batch_size: FromOne
    """Samples in a step."""
    peak_bytes: Bytes
    """Peak memory use during a step, in the framework's allocator."""
    resident_bytes: Bytes
    """Memory that stays allocated: weights, optimizer state, metrics, and arrays of fit()."""
    largest_batch: Count | None
    """The largest batch size that fits the limit; 0 if no sample fits, None without a limit."""
    limit_bytes: Bytes | None
    """How much the framework may use; None without a limit."""
    fits: bool | None
    """Whether this batch fits the limit; None without a limit."""
    tier: Tier
    """How the numbers were obtained."""
    setting: TraceSetting | None
    """What was estimated."""
    peak: PeakDocument
    """Where memory use peaks."""
    workspace_bytes: Bytes
    """Memory at the peak that operations need only while they run, such as cuDNN's workspace."""
    rounding_bytes: Bytes
    """At the peak, the difference between the allocator's chunks and the requested sizes."""
    layers: tuple[LayerRow, ...]
    """Memory at the peak by layer, the largest first; the rows add up to the peak."""
    phases: tuple[Phase, ...]
    """Memory by batch size, to which the resident bytes are added, before rounding."""
    advice: tuple[Advice, ...]
    """Changes, and their effect when those steps run."""
    card: CardDocument
    """Other memory used on the GPU, and the source of the limit."""
    timeline: tuple[Moment, ...]
    """Significant moments of the step, including the peak."""
    notes: tuple[str, ...]
    """Assumptions and omissions."""
    plot: str | None
    """The path of the plot; None if none was drawn."""


def document_of(
    estimate: MemoryEstimate, budget: Budget | None = None, *, target: str, plot: str | None
) -> EstimateDocument:
    """Return everything known: sizes in bytes, None for unknown values, a thinned-out timeline."""
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
        rounding_bytes=estimate.rounding_bytes,
        layers=estimate.layers,
        phases=estimate.phases,
        advice=estimate.advice,
        card=_card(budget or Budget()),
        timeline=_significant(estimate.timeline),
        notes=estimate.notes,
        plot=plot,
    )


def _card(budget: Budget) -> CardDocument:
    gpu = budget.gpu
    now = None if gpu is None else GpuNow(gpu.index, gpu.name, gpu.total_bytes, gpu.free_bytes)
    return CardDocument(CONTEXT_BYTES, budget.source, budget.arithmetic, now)


def _significant(moments: tuple[Moment, ...]) -> tuple[Moment, ...]:
    totals = [moment.total_bytes for moment in moments]
    return tuple(moments[place] for place in thinned(totals, _MOST_MOMENTS))
