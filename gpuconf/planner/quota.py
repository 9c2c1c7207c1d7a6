"""An administrator's limit on the number of GPUs that one user's programs use."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconf.errors import ShortageError
from gpuconf.machine.cards.inventory import Gpu, GpuQuota
from gpuconf.planner.plan import label
from gpuconf.planner.selection import by_free_memory
from gpuconf.profile.model import Profile


def within_quota(
    chosen: Sequence[Gpu], quota: GpuQuota, profile: Profile
) -> tuple[list[Gpu], list[str]]:
    """Return the GPUs of ``chosen`` that the user's programs may use, and a note for the others.

    First those that the user's programs use already, then those with the most free memory.  GPUs
    that the profile names are all required, and a profile that chooses needs at least one: if it
    is not allowed, raises ShortageError, unless ``on_shortage`` is cpu.
    """
    if quota.most is None:
        return list(chosen), []
    used = [gpu for gpu in chosen if gpu.uuid in quota.uuids]
    unused = sorted((gpu for gpu in chosen if gpu not in used), key=by_free_memory(profile))
    allowed = [*used, *unused][: max(quota.most - len(set(quota.uuids) - _uuids(used)), 0)]
    kept = [gpu for gpu in chosen if gpu in allowed]
    left_out = [gpu for gpu in chosen if gpu not in allowed]
    if not left_out:
        return kept, []
    others = len(quota.uuids)
    says = f"{quota.name}: at most {quota.most} GPU" + ("s" if quota.most > 1 else "")
    says += f", and other programs use {others}" if others else ""
    policy = profile.memory.on_shortage
    if policy.action != "cpu" and (not kept or profile.gpus.kind == "list"):
        raise ShortageError(
            f"{says}; profile {profile.name} needs {', '.join(map(label, left_out))}",
            hint="choose fewer GPUs, or wait: gpuconf run --wait 10min -- COMMAND",
            shortage=says,
            wait_s=policy.wait_s if policy.action == "wait" else None,
        )
    return kept, [f"{says}: not using {', '.join(map(label, left_out))}"]


def _uuids(gpus: Sequence[Gpu]) -> set[str]:
    return {gpu.uuid for gpu in gpus if gpu.uuid}
