"""A MemoryEstimate as plain data, for ``gpuconf estimate --json``: configs/estimate.schema.json."""

from __future__ import annotations

from typing import Any

from gpuconf.footprint.budget import Budget
from gpuconf.footprint.memory_estimate import LayerRow, MemoryEstimate, Moment
from gpuconf.footprint.peak_sum import peak_kinds
from gpuconf.footprint.step import Setting
from gpuconf.footprint.thinning import thinned
from gpuconf.hardware.reserve import CONTEXT_BYTES

_MOST_MOMENTS = 100


def as_document(estimate: MemoryEstimate, budget: Budget | None = None) -> dict[str, Any]:
    """Everything that is known, sizes in bytes, unknown as null; the timeline is thinned."""
    return {
        "batch_size": estimate.batch_size,
        "peak_bytes": estimate.peak_bytes,
        "resident_bytes": estimate.resident_bytes,
        "largest_batch": estimate.largest_batch,
        "limit_bytes": estimate.limit_bytes,
        "fits": estimate.fits,
        "tier": estimate.tier,
        "setting": _setting(estimate.setting),
        "peak": {**estimate.peak._asdict(), "bytes_by_kind": peak_kinds(estimate)},
        "workspace_bytes": estimate.workspace_bytes,
        "constant_bytes": estimate.constant_bytes,
        "rounding_bytes": estimate.rounding_bytes,
        "layers": [_layer(row) for row in estimate.layers],
        "phases": [phase._asdict() for phase in estimate.phases],
        "advice": [advice._asdict() for advice in estimate.advice],
        "card": _card(budget or Budget()),
        "timeline": _timeline(estimate.timeline),
        "notes": list(estimate.notes),
    }


def _setting(setting: Setting | None) -> dict[str, Any] | None:
    if setting is None:
        return None
    return {name: value for name, value in setting._asdict().items() if name != "notes"}


def _layer(row: LayerRow) -> dict[str, Any]:
    return {**row._asdict(), "total_bytes": row.total_bytes}


def _card(budget: Budget) -> dict[str, Any]:
    """What lies on it besides, and the machine's own, if there is one."""
    gpu = budget.gpu
    return {
        "context_bytes": CONTEXT_BYTES,
        "limit_source": budget.source,
        "arithmetic": list(budget.arithmetic),
        "gpu": None
        if gpu is None
        else {
            "index": gpu.index,
            "name": gpu.name,
            "total_bytes": gpu.total_bytes,
            "free_bytes": gpu.free_bytes,
        },
    }


def _timeline(moments: tuple[Moment, ...]) -> list[dict[str, Any]]:
    """The moments that matter, with their places among the operations of the step."""
    totals = [moment.total_bytes for moment in moments]
    return [
        {"position": place, **moments[place]._asdict(), "total_bytes": totals[place]}
        for place in thinned(totals, _MOST_MOMENTS)
    ]
