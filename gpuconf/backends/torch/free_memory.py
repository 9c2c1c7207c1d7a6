"""Free memory as PyTorch reports it: within the plan's limit.

Libraries take ``torch.cuda.mem_get_info`` for what they can still allocate: accelerate's
``device_map="auto"`` fills the GPU up to that amount. With a limit, the device's own figure is too
large. The total is still the device's, because ``set_per_process_memory_fraction`` is a fraction of
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuconf.backends.torch.reserve import free_within
from gpuconf.backends.wrapping import is_watched, wrap_call

# The packages that export a function which reports free and total bytes, and its name.
_REPORTING = (("cuda", "mem_get_info"), ("accelerator", "get_memory_info"))


def report_within(torch: Any, limit_of: Callable[[int], int | None]) -> None:
    """Report as free at most what is left of a device's limit.

    If ``limit_of`` returns None for the device, or if torch cannot say how much it has reserved,
    the device's own figure is returned.
    """

    def reported(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        free_bytes, total_bytes = original(*args, **kwargs)
        try:
            index = _index(torch, *args, **kwargs)
            limit_bytes = limit_of(index)
            if limit_bytes is not None:
                free_bytes = free_within(torch, index, free_bytes, limit_bytes)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            pass  # the program uses its own allocator, or a device type that only torch knows
        return free_bytes, total_bytes

    for package, name in _REPORTING:
        exporting = getattr(torch, package, None)
        defining = getattr(exporting, "memory", None)
        if hasattr(defining, name) and not is_watched(defining, name):
            wrap_call(defining, name, reported)
            setattr(exporting, name, getattr(defining, name))


def _index(torch: Any, device: Any = None) -> int:
    """Return the index of a device as torch's functions accept it, or of the current one."""
    if isinstance(device, torch.cuda.device):
        device = device.idx
    if device is not None and not isinstance(device, int):
        device = torch.device(device).index
    return int(torch.cuda.current_device() if device is None else device)
