"""A scheduler's share of a GPU: what Ray or Slurm has assigned to this process.

These schedulers keep track of fractions but do not limit anything. This package turns fractions
into the numbers in the :class:`Inventory`, from which the planner computes a limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from gpuconf.machine.cards.inventory import (
    NO_GPU,
    RAY,
    SCHEDULERS,
    SLURM,
    Assigned,
    Gpu,
    GpuShare,
    Inventory,
)
from gpuconf.machine.schedulers import on_ray, on_slurm
from gpuconf.machine.schedulers.tasks import held_outside
from gpuconf.profile.model import Profile

__all__ = ["Assigned", "assigned_share", "assignment_of", "with_share"]


def scheduler_of(profile: Profile, environ: Mapping[str, str]) -> str | None:
    """Return the scheduler whose share limits ``profile``: ray, slurm, or None.

    If the profile does not name one, this is Slurm if Slurm has assigned shards.
    """
    if profile.memory.share is None:
        return SLURM if on_slurm.SHARDS in environ else None
    return None if profile.memory.share == "none" else profile.memory.share


def assigned_share(profile: Profile, environ: Mapping[str, str]) -> Assigned | None:
    """Return the scheduler's current assignment to this process; None if there is none.

    Raises UsageError for a bad GPUCONF_SHARDS_PER_GPU.
    """
    scheduler = scheduler_of(profile, environ)
    if scheduler == RAY:
        return on_ray.assigned()
    if scheduler == SLURM:
        return on_slurm.assigned(profile.slurm, environ)
    return None


def with_share(inventory: Inventory, assigned: Assigned | None) -> Inventory:
    """Add the share to each GPU of ``inventory``; existing shares, such as a run's, are kept."""
    has_shares = any(gpu.share for gpu in inventory.gpus)
    if assigned is None or has_shares or inventory.unassigned or inventory.problem:
        return inventory
    if assigned.part is None:
        return inventory._replace(unshared=assigned.why)
    if assigned.part == 0:
        return inventory._replace(unassigned=assigned.why)
    name, part, words = SCHEDULERS[assigned.scheduler].name, assigned.part, assigned.words

    def shared(gpu: Gpu) -> Gpu:
        outside = held_outside(gpu, assigned.scheduler, os.getpid())
        return gpu._replace(share=GpuShare(name, part, words, outside))

    return inventory.mapped(shared)


def assignment_of(gpus: Iterable[Gpu]) -> str:
    """Return the text of the assignment on which a plan for ``gpus`` was based."""
    return next((gpu.share.assignment for gpu in gpus if gpu.share), NO_GPU)
