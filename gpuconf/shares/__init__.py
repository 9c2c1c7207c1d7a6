"""A scheduler's share of a GPU: what Ray or Slurm has assigned to this process, beside the figures.

Both count fractions and limit nothing.  Here they become figures of the :class:`Inventory`, from
which the planner makes a limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from gpuconf.hardware.inventory import Gpu, Inventory, Share
from gpuconf.hardware.schedulers import NAMES, RAY, SLURM, held_outside
from gpuconf.profile.model import Profile
from gpuconf.shares import on_ray, on_slurm
from gpuconf.shares.assigned import NO_GPU, Assigned

__all__ = ["Assigned", "assigned_share", "assignment_of", "with_share"]


def scheduler_of(profile: Profile, environ: Mapping[str, str]) -> str | None:
    """Whose share ``profile`` is held to: ray, slurm, or None.

    Slurm's without a word of the profile's, where it has assigned shards.
    """
    if profile.memory.share is None:
        return SLURM if on_slurm.SHARDS in environ else None
    return None if profile.memory.share == "none" else profile.memory.share


def assigned_share(profile: Profile, environ: Mapping[str, str]) -> Assigned | None:
    """What its scheduler has assigned to this process now; None where there is none.

    Raises UsageError for a bad GPUCONF_SHARDS_PER_GPU.
    """
    scheduler = scheduler_of(profile, environ)
    if scheduler == RAY:
        return on_ray.assigned()
    return on_slurm.assigned(profile.slurm, environ) if scheduler == SLURM else None


def with_share(inventory: Inventory, assigned: Assigned | None) -> Inventory:
    """``inventory`` with the share on each GPU; one that has shares, as a run's has, stays."""
    has_shares = any(gpu.share for gpu in inventory.gpus)
    if assigned is None or has_shares or inventory.unassigned or inventory.problem:
        return inventory
    if assigned.part is None:
        return inventory._replace(unshared=assigned.why)
    if assigned.part == 0:
        return inventory._replace(unassigned=assigned.why)
    name, part, words = NAMES[assigned.scheduler], assigned.part, assigned.words

    def shared(gpu: Gpu) -> Gpu:
        outside = held_outside(gpu, assigned.scheduler, os.getpid())
        instances = tuple(map(shared, gpu.mig_instances))
        return gpu._replace(share=Share(name, part, words, outside), mig_instances=instances)

    return inventory._replace(gpus=tuple(map(shared, inventory.gpus)))


def assignment_of(gpus: Iterable[Gpu]) -> str:
    """The words of the assignment that a plan of ``gpus`` was made for."""
    return next((gpu.share.assignment for gpu in gpus if gpu.share), NO_GPU)
