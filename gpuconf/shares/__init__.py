"""A scheduler's share of a GPU: what Ray, Slurm or KAI has assigned to this process.

They count fractions and limit nothing.  Here those become figures of the :class:`Inventory`, from
which the planner makes a limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from gpuconf.hardware.inventory import KAI, RAY, SCHEDULERS, SLURM, Gpu, Inventory, Share
from gpuconf.profile.model import Profile
from gpuconf.shares.assigned import NO_GPU, PORTION, SHARDS, Assigned

__all__ = ["Assigned", "assigned_share", "assignment_of", "with_share"]

_IN_KUBERNETES = "KUBERNETES_SERVICE_HOST"


def scheduler_of(profile: Profile, environ: Mapping[str, str]) -> str | None:
    """Whose share ``profile`` is held to: ray, slurm, kai, or None.

    Without a word of the profile's Slurm's where it has assigned shards, and KAI's in its pods.
    """
    if profile.memory.share is None:
        if SHARDS in environ:
            return SLURM
        return KAI if PORTION in environ and _IN_KUBERNETES in environ else None
    return None if profile.memory.share == "none" else profile.memory.share


def assigned_share(profile: Profile, environ: Mapping[str, str]) -> Assigned | None:
    """What its scheduler has assigned to this process now; None where there is none.

    Raises UsageError for a bad GPUCONF_SHARDS_PER_GPU.
    """
    # Each is imported where it is asked, since most programs have no scheduler.
    scheduler = scheduler_of(profile, environ)
    if scheduler == RAY:
        from gpuconf.shares import on_ray

        return on_ray.assigned()
    if scheduler == SLURM:
        from gpuconf.shares import on_slurm

        return on_slurm.assigned(profile.slurm, environ)
    if scheduler == KAI:
        from gpuconf.shares import on_kai

        return on_kai.assigned(environ)
    return None


def with_share(inventory: Inventory, assigned: Assigned | None) -> Inventory:
    """``inventory`` with the share on each GPU; one that has shares, as a run's has, stays."""
    has_shares = any(gpu.share for gpu in inventory.gpus)
    if assigned is None or has_shares or inventory.unassigned or inventory.problem:
        return inventory
    if assigned.part is None:
        return inventory._replace(unshared=assigned.why)
    if assigned.part == 0:
        return inventory._replace(unassigned=assigned.why)
    from gpuconf.hardware.schedulers import held_outside

    name, part, words = SCHEDULERS[assigned.scheduler], assigned.part, assigned.words

    def shared(gpu: Gpu) -> Gpu:
        # A pod cannot see whose the others' processes are; a node of Kubernetes has no display.
        is_kai = assigned.scheduler == KAI
        outside = 0 if is_kai else held_outside(gpu, assigned.scheduler, os.getpid())
        instances = tuple(map(shared, gpu.mig_instances))
        return gpu._replace(share=Share(name, part, words, outside), mig_instances=instances)

    return inventory._replace(gpus=tuple(map(shared, inventory.gpus)))


def assignment_of(gpus: Iterable[Gpu]) -> str:
    """The words of the assignment that a plan of ``gpus`` was made for."""
    return next((gpu.share.assignment for gpu in gpus if gpu.share), NO_GPU)
