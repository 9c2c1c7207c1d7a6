"""PyTorch allocates the plan's reserve, and keeps it until `empty_cache()` or a refused request."""

from __future__ import annotations

import os
from typing import Any

from gpuconf.backends import reserve
from gpuconf.backends.interface import PlanSource
from gpuconf.backends.torch import caps
from gpuconf.backends.torch.environment import OPTION_VARIABLES, unenforced_limit
from gpuconf.basics.units import MIB
from gpuconf.planner import Plan

_taken: dict[int, int] = {}  # torch's device number -> bytes


def take_reserve(torch: Any, plan: Plan, source: PlanSource) -> None:
    """Take the reserve on the GPU that this process uses; CUDA is already initialized.

    If there are several, the one in use is known only for torchrun ranks; otherwise, the reserve is
    only a lease.
    """
    from gpuconf.injected.places import card_of_rank  # with fcntl, not on Windows

    own = card_of_rank([gpu.gpu.uuid for gpu in plan.gpus if gpu.gpu.uuid])
    used = [each for each in caps.devices(torch, plan.gpus) if each[1].gpu.uuid in own]
    if len(used) != 1 or not source.claim_reserve(used[0][1], "torch"):
        return
    ((index, gpu),) = used

    def allocate(size_bytes: int) -> None:
        if caps.reserved_bytes(torch, index):
            raise RuntimeError("the program has already allocated memory")
        # Not a tensor, which a mode of the program, such as FakeTensorMode, would not allocate.
        memory = torch.cuda.memory
        # Tensors up to 1 MiB have a separate pool: 2 MiB, so that the first of them on a full
        # GPU does not make torch return the reserve.
        for size in (size_bytes, MIB):
            memory.caching_allocator_delete(memory.caching_allocator_alloc(size, index))
        torch.cuda.reset_peak_memory_stats(index)
        _taken[index] = caps.reserved_bytes(torch, index)

    # A smaller limit may be the program's.  torch rounds large requests up to 2 MiB.
    limit_bytes = caps.limit_in_force(torch, index) or 0
    size = min(gpu.preallocated_bytes, limit_bytes - 2 * MIB) // (2 * MIB) * (2 * MIB)
    sizes = [size] if size > 0 else []
    reserve.take(f"cuda:{index}", sizes, allocate, source.record, why_not=_why_not(torch))


def _why_not(torch: Any) -> str | None:
    """Return why memory that torch allocates is not kept for later tensors; None if it is."""
    if caps.has_own_allocator(torch):
        return "the program uses its own allocator"
    if any("max_split_size" in os.environ.get(name, "") for name in OPTION_VARIABLES):
        return "with max_split_size, small tensors would not get any of it"
    return unenforced_limit(os.environ)


def free_within(torch: Any, index: int, free_bytes: int, limit_bytes: int) -> int:
    """Return how much of a device's ``free_bytes`` tensors may take within ``limit_bytes``.

    The driver counts the unused part of the reserve as used.
    """
    reserved = int(torch.cuda.memory_reserved(index))
    unused = int(min(_taken.get(index, 0), reserved - torch.cuda.memory_allocated(index)))
    return min(free_bytes + unused, max(0, limit_bytes - reserved + unused))
