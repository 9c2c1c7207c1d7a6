"""CuPy: its memory pool limit, one variable for all GPUs.  Pure; does not need CuPy.

CuPy reads bytes, or a percentage of each GPU's total; 0 means no limit (docs.cupy.dev, "Environment
variables").  It has not been run with CuPy itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.basics.environment import Change
from gpuconf.basics.units import Amount, parse_share
from gpuconf.planner import GpuPlan, Plan
from gpuconf.profile.owned_variables import OWNED_VARIABLES

LIMIT = "CUPY_GPU_MEMORY_LIMIT"


def limit_wishes(plan: Plan, baseline: Mapping[str, str]) -> list[Change]:
    """Return the plan's limit in bytes, if it is the same on every planned GPU.

    A smaller value set by the user stays; a larger one is replaced.
    """
    planned = plan.gpus or ((plan.unknown_gpu,) if plan.unknown_gpu else ())
    limit_bytes = next((gpu.limit_bytes for gpu in planned), None)
    if limit_bytes is None or any(gpu.limit_bytes != limit_bytes for gpu in planned):
        return []
    theirs, owner = baseline.get(LIMIT, ""), OWNED_VARIABLES[LIMIT]
    if theirs and all(_is_within(theirs, limit_bytes, gpu) for gpu in planned):
        return [Change(LIMIT, theirs, owner)]
    gives_way = f"the plan's limit is {limit_bytes} bytes" if theirs else None
    return [Change(LIMIT, str(limit_bytes), owner, gives_way=gives_way)]


def _is_within(theirs: str, limit_bytes: int, gpu: GpuPlan) -> bool:
    """Whether the user's value limits CuPy to ``limit_bytes`` on ``gpu``; False if unreadable."""
    try:
        amount = Amount(share=parse_share(theirs)) if "%" in theirs else Amount(int(theirs))
    except ValueError:
        return False
    return 0 < (amount.of(gpu.gpu.total_bytes) or 0) <= limit_bytes
