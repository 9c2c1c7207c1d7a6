"""PyTorch: the allocator's variable before import, and the cap once torch is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from gpuconf.environ import Change
from gpuconf.planner import Plan
from gpuconf.settings import Setting
from gpuconf.units import mib

_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"


def wishes(plan: Plan, baseline: Mapping[str, str]) -> list[Change]:
    """``expandable_segments`` merged into what the user already has in the variable."""
    wanted = plan.profile.torch.expandable_segments
    if wanted is None:
        return []
    option = f"expandable_segments:{wanted}"
    theirs = [part for part in baseline.get(_ALLOCATOR, "").split(",") if part.strip()]
    if any(part.strip().startswith("expandable_segments:") for part in theirs):
        # Theirs stays; asking for ours alone makes environ.settle report the difference.
        return [Change(_ALLOCATOR, option, "torch.expandable_segments")]
    value = ",".join([*theirs, option])
    return [Change(_ALLOCATOR, value, "torch.expandable_segments", overrules=True)]


def apply(plan: Plan, torch: ModuleType, record: Callable[[Setting], None]) -> None:
    """Cap torch's caching allocator on every planned GPU, once torch makes its CUDA context.

    ``set_per_process_memory_fraction`` would make the context at once, some 300-500 MB on the
    card; torch's own queue for calls before that (``torch.cuda._lazy_call``) waits for it.
    """
    for index, gpu in enumerate(plan.gpus):
        if gpu.limit_bytes is None or not gpu.gpu.total_bytes:
            continue
        name, limit = f"torch cuda:{index} memory fraction", mib(gpu.limit_bytes)
        fraction = gpu.limit_bytes / gpu.gpu.total_bytes
        record(Setting(name, limit, *_cap(torch, index, fraction)))


def _cap(torch: Any, index: int, fraction: float) -> tuple[str | None, str | None]:
    cuda = torch.cuda
    if torch.version.cuda is None:
        return None, "this torch is built without CUDA"
    if cuda.is_initialized():
        cuda.set_per_process_memory_fraction(fraction, index)
        return f"{fraction:.4f} of the card", None
    lazy_call = getattr(cuda, "_lazy_call", None)
    if lazy_call is None:
        return None, "this torch has no queue for calls before CUDA's start"
    lazy_call(lambda: cuda.set_per_process_memory_fraction(fraction, index))
    return None, None
