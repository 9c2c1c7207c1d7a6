"""The peak as a sum of everything in memory at that time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.basics.units import mib_figure, mib_figures
from gpuconf.commands.estimate.memory_estimate import MemoryEstimate, Moment
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    ARRAYS,
    BUILDING,
    COMPILED,
    DATA,
    FIRST_STEP,
    GRADIENT,
    OPTIMIZER_STATE,
    OTHER_STATE,
    ROUNDING,
    TEMPORARY,
    WEIGHTS,
    WORKSPACE,
)

RESIDENT = {
    WEIGHTS: "weights",
    OPTIMIZER_STATE: "optimizer state",
    OTHER_STATE: "other variables: metrics, seeds",
    ARRAYS: "whole arrays that fit() copies to the GPU",
}
PASSING = {
    ACTIVATION: "activations",
    GRADIENT: "gradients",
    TEMPORARY: "temporaries",
    COMPILED: "activations, gradients, temporaries: one block, laid out by XLA",
    DATA: "the batch itself",
    WORKSPACE: "workspace inside operations",
}
_LAST = {
    BUILDING: "extra while the model is built",
    FIRST_STEP: "extra in the first step",
    ROUNDING: "unused parts of the allocator's chunks, and constants",
}


class SumRow(NamedTuple):
    """A term or a sum; ``sign`` is blank for the first, else ``+`` or ``-``; ``=`` for a sum."""

    sign: str
    size_bytes: int
    words: str


def peak_moment(estimate: MemoryEstimate) -> Moment | None:
    """Return the moment in the timeline with the highest memory use."""
    return max(estimate.timeline, key=lambda moment: moment.total_bytes, default=None)


def peak_kinds(estimate: MemoryEstimate) -> dict[str, int]:
    """Return bytes by kind, which add up to the peak."""
    moment = peak_moment(estimate)
    kinds = dict(moment.bytes_by_kind) if moment is not None else {}
    kinds = kinds or {OTHER_STATE: estimate.resident_bytes}
    kinds[BUILDING], kinds[FIRST_STEP] = estimate.building_bytes, estimate.first_step_bytes
    uncounted = estimate.peak_bytes - sum(kinds.values())
    kinds[ROUNDING] = kinds.get(ROUNDING, 0) + uncounted
    return {kind: size for kind, size in kinds.items() if size}


def peak_sum(estimate: MemoryEstimate) -> list[SumRow]:
    """Return the rows: resident memory, its sum, transient memory, the peak; no empty rows."""
    kinds = peak_kinds(estimate)
    stays = [_row(kinds[kind], words) for kind, words in RESIDENT.items() if kind in kinds]
    if stays:
        stays[0] = stays[0]._replace(sign=" ")
    resident = sum(kinds.get(kind, 0) for kind in RESIDENT)
    others = {kind: kind for kind in kinds if kind not in RESIDENT and kind not in PASSING}
    words = {**PASSING, **others, **_LAST}
    if estimate.setting is None or estimate.setting.training:
        words[ACTIVATION] += ", kept for the backward pass"
    passes = [_row(kinds[kind], words[kind]) for kind in words if kind in kinds]
    return [
        *stays,
        SumRow("=", resident, "resident between steps"),
        *passes,
        SumRow("=", estimate.peak_bytes, "the peak"),
    ]


def peak_figures(rows: Sequence[SumRow]) -> list[str]:
    """Return the rows in MiB, rounded so that the figures add up as the bytes do."""
    signed = [0 if row.sign == "=" else -row.size_bytes if row.sign == "-" else row.size_bytes
              for row in rows]  # fmt: skip
    return [
        mib_figure(row.size_bytes) if row.sign == "=" else figure.lstrip("-")
        for row, figure in zip(rows, mib_figures(signed), strict=True)
    ]


def _row(size_bytes: int, words: str) -> SumRow:
    return SumRow("+" if size_bytes >= 0 else "-", abs(size_bytes), words)
