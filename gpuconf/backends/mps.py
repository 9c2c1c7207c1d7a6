"""``memory.enforce``: the variable that makes NVIDIA's MPS limit this process to the plan.

CUDA reads it at startup.  MPS numbers the GPUs that the process sees, and counts all its memory on
each: the framework's and the context.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.environ import Change
from gpuconf.hardware import mps
from gpuconf.planner import Plan
from gpuconf.planner.caps import enforcements
from gpuconf.profile.owned_variables import OWNED_VARIABLES
from gpuconf.settings import Setting
from gpuconf.units import MIB


def wishes(plan: Plan) -> list[Change]:
    """Return the plan's limits for MPS, never above the user's, which are terms of the plan."""
    limits = (each.mps_limit_bytes for each in plan.gpus)
    entries = [f"{place}={limit // MIB}M" for place, limit in enumerate(limits) if limit]
    if not entries:
        return []
    return [Change(mps.LIMIT, ",".join(entries), OWNED_VARIABLES[mps.LIMIT], overrules=True)]


def not_enforced(plan: Plan, environ: Mapping[str, str]) -> list[Setting]:
    """Return the reason if ``enforce: mps`` has no effect; an empty list if it has."""
    if plan.hides_gpus or "mps" not in enforcements(plan.profile):
        return []
    if plan.mps_is_running is False:
        why = (
            f"no MPS control daemon in {mps.pipe_folder(environ)}, so only the framework's own "
            "limit holds; `nvidia-cuda-mps-control -d` starts one"
        )
    elif not plan.gpus or any(each.mps_limit_bytes for each in plan.gpus):
        return []
    else:
        why = "no GPU has a limit in this profile; `memory_limit: 90%` is one"
    return [Setting("memory.enforce", "mps", "none", why)]
