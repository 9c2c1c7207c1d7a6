"""The plan if NVML gives no figures: what applies to any GPU that a framework finds."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpuconf.basics.units import sized
from gpuconf.errors import ProfileError
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.planner.frameworks import with_framework_limits
from gpuconf.planner.limits import plan_gpu
from gpuconf.planner.plan import GpuPlan, Plan
from gpuconf.profile.model import GpuRules, Profile


def plan_without_figures(
    profile: Profile, problem: str, value: str | None, chosen_by_parent: str | None
) -> Plan:
    """Apply the rules if figures are missing; ``value`` is the user's list, ``problem`` the
    reason."""
    gpu = plan_gpu(Gpu(index=0), GpuRules(profile.memory, profile.virtual_devices))
    if sys.platform == "darwin":  # no framework takes a limit on Metal
        gpu = gpu._replace(fraction=None)
    (gpu,) = with_framework_limits([gpu], profile)
    notes = _dropped_rules(profile, gpu, problem)
    if profile.gpus.kind == "pick":
        used = "all GPUs" if chosen_by_parent is None else "the parent process's GPUs"
        notes.append(f"gpus: {{pick: most-free}} uses {used}: {problem}")
    if profile.per_gpu:
        notes.append(f"per_gpu is ignored: {problem}")
    return Plan(
        profile,
        unknown_gpu=gpu._replace(shortage=None),
        cuda_visible_devices=value_without_figures(profile, value, chosen_by_parent),
        notes=tuple(notes),
    )


def _dropped_rules(profile: Profile, gpu: GpuPlan, problem: str) -> list[str]:
    dropped = [line.partition(":")[0] for line in gpu.arithmetic if ": dropped" in line]
    if profile.memory.keep_free is profile.memory.context is None:
        # The profile itself has no such rule.
        dropped = [term for term in dropped if "keep_free" not in term]
    if gpu.fraction and not gpu.unsized_fraction:
        dropped.insert(0, f"fraction {gpu.fraction:g} × total")
    if not dropped:
        return []
    left = "no limit is set"
    if gpu.unsized_fraction:
        share = f"{gpu.unsized_fraction:g} of its total"
        left = f"any GPU is limited to {share}, without {' and '.join(dropped)}"
    elif profile.memory.allow_growth:
        left += "; only allow_growth applies"
    if gpu.limit_bytes is not None:
        left = f"the limit is {sized(gpu.limit_bytes)}, without {' and '.join(dropped)}"
    return [f"{left}: {problem}"]


def value_without_figures(
    profile: Profile, value: str | None, chosen_by_parent: str | None = None
) -> str | None:
    """Return the CUDA_VISIBLE_DEVICES for unknown GPUs; None to leave it unchanged.

    If ``value``, the user's own list, is set, a number is an index into it, and a UUID must be in
    it: a scheduler's list is narrowed, never widened. A parent process's choice stays in effect; a
    list that refers to GPUs outside it is read as indices and UUIDs within that choice.
    """
    if profile.gpus.kind != "list":
        return chosen_by_parent
    if chosen_by_parent is None:
        return ",".join(_members(profile, value))
    inherited = _entries(chosen_by_parent)
    try:
        named = _members(profile, value)
    except ProfileError:
        named = []
    if not named or not set(named) <= set(inherited):
        named = _members(profile, chosen_by_parent)
    return ",".join(named)


def _entries(value: str) -> list[str]:
    return [entry.strip() for entry in value.split(",")]


def _members(profile: Profile, value: str | None) -> list[str]:
    if value is None:
        return [str(member) for member in profile.gpus.members]
    entries = _entries(value)
    return [_entry(member, entries, profile) for member in profile.gpus.members]


def _entry(member: int | str, entries: Sequence[str], profile: Profile) -> str:
    if isinstance(member, int):
        found = [entry for entry in entries[member : member + 1] if entry not in ("", "-1")]
    else:
        found = [e for e in entries if e.startswith(member) or (e and member.startswith(e))]
    if len(found) == 1:
        return found[0]
    raise ProfileError(
        f"gpus names {member!r}, which CUDA_VISIBLE_DEVICES={','.join(entries)} does not include",
        hint="unset CUDA_VISIBLE_DEVICES, or name a GPU that it lists",
        file=profile.source,
        key="gpus",
    )
