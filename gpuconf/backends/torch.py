"""PyTorch: the allocator's variable before import, and the cap once torch is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from gpuconf.environ import Change
from gpuconf.planner import Plan
from gpuconf.settings import Setting
from gpuconf.units import mib

# Every torch reads the first; newer ones read the second too, and which of them rules where
# both are set differs between releases (c10/cuda/CUDAAllocatorConfig.h, 2.8 to 2.10).
_ALLOCATORS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def wishes(plan: Plan, baseline: Mapping[str, str]) -> list[Change]:
    """``expandable_segments`` merged into what the user has in the variable, or in both."""
    wanted = plan.profile.torch.expandable_segments
    if wanted is None:
        return []
    names = [name for name in _ALLOCATORS if baseline.get(name)] or [_ALLOCATORS[0]]
    return [
        _merged(name, baseline.get(name, ""), f"expandable_segments:{wanted}") for name in names
    ]


def _merged(name: str, theirs: str, option: str) -> Change:
    parts = [part.strip() for part in theirs.split(",") if part.strip()]
    if option in parts:
        return Change(name, theirs, "torch.expandable_segments")
    if any(part.startswith("expandable_segments:") for part in parts):
        # Theirs stays; asking for ours alone makes environ.settle report the difference.
        return Change(name, option, "torch.expandable_segments")
    value = ",".join([*parts, option])
    return Change(name, value, "torch.expandable_segments", overrules=True)


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
