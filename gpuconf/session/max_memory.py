"""`gpuconf.max_memory()`: the memory that accelerate's ``device_map="auto"`` may fill."""

from __future__ import annotations

from gpuconf.backends.torch.caps import limit_in_force, reported_limit
from gpuconf.backends.torch.reserve import free_within
from gpuconf.errors import with_short_tracebacks
from gpuconf.machine.host_memory import available_bytes
from gpuconf.session.configure import activation, bound_plan, configure


@with_short_tracebacks
def max_memory() -> dict[int | str, int]:
    """Return the bytes that this process can still allocate with PyTorch, per GPU and ``"cpu"``.

    For ``from_pretrained(..., device_map="auto", max_memory=gpuconf.max_memory())``.  The keys are
    PyTorch's device numbers.  A value is the plan's limit minus what PyTorch has reserved, or what
    is free if that is less.  ``"cpu"`` is the host's available memory, left out if unknown or if
    the GPU uses the same memory.

    Initializes CUDA, and calls :func:`configure` if it has not been called yet. Raises ImportError
    without PyTorch, and whatever configuring and planning raise.
    """
    if activation() is None:
        configure()
    import torch

    sizes: dict[int | str, int] = {}
    for index in range(torch.cuda.device_count()):
        free_bytes = torch.cuda.mem_get_info(index)[0]
        limit_bytes = limit_in_force(torch, index)
        if limit_bytes is not None and reported_limit(torch, index) is None:
            free_bytes = free_within(torch, index, free_bytes, limit_bytes)
        sizes[index] = int(free_bytes)
    plan, host_bytes = bound_plan(), available_bytes()
    is_unified = plan is not None and any(each.gpu.is_unified for each in plan.gpus)
    return sizes if host_bytes is None or is_unified else {**sizes, "cpu": host_bytes}
