"""Whether PyTorch has done something that the plan can no longer undo, and where."""

from __future__ import annotations

from typing import Any

from gpuconf.backends.find_init_line import too_late
from gpuconf.backends.torch.caps import limits_of
from gpuconf.basics.units import sized
from gpuconf.planner import Plan

# Calls that always initialize CUDA; others do so if they name a device.
MAKERS = frozenset(
    {"cuda", "init", "set_device", "current_device", "synchronize", "mem_get_info"}
    | {"get_device_properties", "get_device_name", "get_device_capability"}
    | {"set_per_process_memory_fraction"}
)


def refuse_if_too_late(torch: Any, plan: Plan) -> None:
    """Raise TooLateError if torch already sees GPUs outside ``plan``, or uses too much of one.

    The cap itself can be set at any time.
    """
    why = _what_cannot_hold(torch, plan)
    if why is not None:
        what = "PyTorch had already started CUDA,"
        raise too_late(what, MAKERS, f": {why}", argument="device")


def _what_cannot_hold(torch: Any, plan: Plan) -> str | None:
    count = torch.cuda.device_count()
    if plan.hides_gpus and count:
        return f"it detected {count} GPUs, but profile {plan.profile.name} allows none"
    if plan.gpus and count > len(plan.gpus):
        return f"it detected {count} GPUs, but the plan has {len(plan.gpus)}"
    for index, limit_bytes in limits_of(torch, plan):
        reserved = torch.cuda.memory_reserved(index)
        if reserved > limit_bytes:
            allowed = sized(limit_bytes)
            return f"it uses {sized(reserved)} of cuda:{index}, but the plan allows {allowed}"
    return None
