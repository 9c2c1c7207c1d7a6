"""Ray's assignment to the task or actor that runs in this process.

It is read when a plan is made, since a worker starts before its task is known and may run several.
"""

from __future__ import annotations

import re
import sys

from gpuconf.machine.cards.inventory import NO_GPU, RAY, Assigned

# A placement group's bundle, with its index in the group, and the group's total without one.
_IN_GROUP = re.compile(r"GPU_group_(?:\d+_)?[0-9a-f]+")


def assigned() -> Assigned | None:
    """Return the current assignment; None outside a Ray worker, such as in the driver."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    if context.worker.mode != ray.WORKER_MODE:
        return None
    resources = context.get_assigned_resources()
    count = max((size for name, size in resources.items() if _is_gpu(name)), default=0.0)
    if count == 0:
        why = "Ray has assigned no GPU to this task; it runs on the CPU"
        return Assigned(RAY, 0.0, NO_GPU, why)
    cards = ", ".join(map(str, ray.get_gpu_ids()))
    return Assigned(RAY, min(1.0, float(count)), f"{count:g} of GPU {cards}")


def _is_gpu(resource: str) -> bool:
    return resource == "GPU" or _IN_GROUP.fullmatch(resource) is not None
