"""JAX: everything goes through environment variables that XLA reads when it makes its client."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpuconf.environ import Change
from gpuconf.planner import Plan

# JAX knows both names and refuses to start when both are set; older ones know only the second.
_NEW_FRACTION = "XLA_CLIENT_MEM_FRACTION"
_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"
_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"


def wishes(plan: Plan, baseline: Mapping[str, str]) -> list[Change]:
    """The variables for ``plan``: preallocation, and the limit as one share of every GPU.

    JAX has no limit in bytes and one fraction for all GPUs, so the smallest share holds; the
    fraction stays a cap when preallocation is off.
    """
    preallocate = plan.profile.jax.preallocate
    if preallocate is None and plan.allow_growth is not None:
        preallocate = not plan.allow_growth
    found = []
    if preallocate is not None:
        value = "true" if preallocate else "false"
        found.append(Change(_PREALLOCATE, value, "jax.preallocate"))
    share = _smallest_share(plan)
    if share is not None:
        name = _NEW_FRACTION if _NEW_FRACTION in baseline else _FRACTION
        found.append(Change(name, share, "memory"))
    return found


def voided_cap(environ: Mapping[str, str]) -> str | None:
    """Why JAX's fraction will not cap anything in ``environ``; None where it will."""
    if environ.get(_ALLOCATOR) == "platform":
        return f"with {_ALLOCATOR}=platform JAX takes memory call by call, without a cap"
    return None


def _smallest_share(plan: Plan) -> str | None:
    shares = [
        gpu.limit_bytes / gpu.gpu.total_bytes
        for gpu in plan.gpus
        if gpu.limit_bytes is not None and gpu.gpu.total_bytes
    ]
    return f"{math.floor(min(shares) * 1e4) / 1e4:.4f}" if shares else None
