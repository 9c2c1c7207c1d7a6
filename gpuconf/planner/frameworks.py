"""A GPU's limit as each framework takes it: bytes for TensorFlow, a fraction for JAX and PyTorch.

These are the figures that the backends set, each with its arithmetic. None of them exceeds the
GPU's limit, except for JAX's minimum of 2 MiB.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from gpuconf.basics.units import MIB, sized
from gpuconf.injected.sizes import exact_share
from gpuconf.planner.plan import FrameworkLimit, GpuPlan
from gpuconf.profile.model import Profile

# XLA's allocator rounds the limit up to a multiple of this (seen on jax 0.10.2).
_GRANULE_BYTES = 2 * MIB
_TAKING = {True: ", allocated at the start", False: ", allocated as needed", None: ""}


def with_framework_limits(planned: Sequence[GpuPlan], profile: Profile) -> list[GpuPlan]:
    """Add each framework's limit to ``planned``; a GPU without a limit gets none."""
    smallest = _smallest_share(planned)
    return [
        plan._replace(
            limits=tuple(
                filter(None, (_tensorflow(plan), _jax(plan, smallest, profile), _torch(plan)))
            )
        )
        for plan in planned
    ]


def _tensorflow(plan: GpuPlan) -> FrameworkLimit | None:
    """Return TensorFlow's limit; logical devices have limits even if the GPU has none."""
    own = () if plan.limit_bytes is None else (plan.limit_bytes,)
    sizes = plan.logical_devices_bytes or own
    at_once = None if plan.allow_growth is None else not plan.allow_growth
    if not sizes:
        return _fraction_limit("tensorflow", plan.unsized_fraction, at_once)
    shown = " + ".join(str(size // MIB) for size in sizes)
    line = f"memory_limit {shown} MiB"
    return FrameworkLimit("tensorflow", sum(sizes), at_once=at_once, arithmetic=(line,))


def _smallest_share(planned: Sequence[GpuPlan]) -> tuple[float, GpuPlan] | None:
    """Return the single fraction that JAX has for all GPUs, and the GPU that determines it."""
    shares = [
        (share_of(plan.limit_bytes, plan.gpu.total_bytes), plan)
        for plan in planned
        if plan.limit_bytes is not None and plan.gpu.total_bytes
    ]
    shares += [(plan.unsized_fraction, plan) for plan in planned if plan.unsized_fraction]
    return min(shares, key=lambda pair: pair[0], default=None)


def _jax(
    plan: GpuPlan, smallest: tuple[float, GpuPlan] | None, profile: Profile
) -> FrameworkLimit | None:
    at_once = profile.preallocates_in_jax(plan.allow_growth)
    total = plan.gpu.total_bytes
    if smallest is None:
        return None if plan.limit_bytes is None else _uncapped("jax", at_once)
    share, of = smallest
    if not total:
        return _fraction_limit("jax", share, at_once)
    limit = math.ceil(share * total / _GRANULE_BYTES) * _GRANULE_BYTES
    if of is plan:
        line = f"{sized(limit)} (a multiple of 2 MiB) / {sized(total)} total = fraction {share:.9g}"
    else:
        line = (
            f"fraction {share:.9g} × {sized(total)} total = {sized(limit)}: JAX has one fraction "
            f"for all GPUs; GPU {of.gpu.index} has the smallest"
        )
    return FrameworkLimit("jax", limit, share, at_once, (line + _TAKING[at_once],))


def _torch(plan: GpuPlan) -> FrameworkLimit | None:
    limit, total = plan.limit_bytes, plan.gpu.total_bytes
    if limit is None:
        return _fraction_limit("torch", plan.unsized_fraction, at_once=False)
    if not total:
        return _uncapped("torch")
    fraction, limit = exact_share(limit, total), min(limit, total)
    line = f"{sized(limit)} / {sized(total)} total = fraction {fraction:.4f}{_TAKING[False]}"
    return FrameworkLimit("torch", limit, fraction, arithmetic=(line,))


def _fraction_limit(
    framework: str, fraction: float | None, at_once: bool | None
) -> FrameworkLimit | None:
    """Return the limit of a framework that itself knows the GPU's total."""
    if fraction is None:
        return None
    line = f"fraction {fraction:.9g} of the total, which the framework queries{_TAKING[at_once]}"
    return FrameworkLimit(framework, None, fraction, at_once, (line,))


def _uncapped(framework: str, at_once: bool | None = None) -> FrameworkLimit:
    line = (
        f"no limit: the framework needs a fraction of the total, which is unknown{_TAKING[at_once]}"
    )
    return FrameworkLimit(framework, at_once=at_once, arithmetic=(line,))


def share_of(limit_bytes: int, total_bytes: int) -> float:
    """Return the largest fraction of ``total_bytes`` that keeps XLA within ``limit_bytes``.

    XLA stores the fraction as a float32 and rounds the result up to a multiple of 2 MiB.  A limit
    below 2 MiB becomes 2 MiB. A limit above the total, which is possible if a driver reads its
    figures at different moments, becomes the total.
    """
    granules = min(limit_bytes, total_bytes) // _GRANULE_BYTES
    allowed = max(granules, 1) * _GRANULE_BYTES
    share = _float32(allowed / total_bytes)
    while share * total_bytes > allowed:
        share = _float32(share * (1 - 2**-24))
    return share


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])
