"""Which of the visible GPUs a profile means, and which rules hold for each."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconf.errors import ProfileError
from gpuconf.hardware import match_uuid
from gpuconf.hardware.inventory import Gpu
from gpuconf.planner.plan import label
from gpuconf.profile.model import GpuRules, GpuSelection, Profile


def select(
    profile: Profile, visible: Sequence[Gpu], inherited: Sequence[Gpu]
) -> tuple[list[Gpu], list[str]]:
    selection = profile.gpus
    if selection.kind == "list":
        return _listed(profile, visible), []
    if selection.kind == "pick":
        # A child trains where its parent does.
        kept = [gpu for gpu in visible if gpu in inherited]
        return _pick(selection, kept if len(kept) >= selection.count else list(visible))
    return list(visible), []


def _listed(profile: Profile, visible: Sequence[Gpu]) -> list[Gpu]:
    chosen: list[Gpu] = []
    for member in profile.gpus.members:
        gpu = _member(member, visible, profile)
        if gpu in chosen:
            raise ProfileError(
                f"gpus names {label(gpu)} twice, the second time as {member!r}; CUDA shows no "
                "GPU at all for a list with a repeat",
                hint="name each GPU once, by its number or by its UUID",
                file=profile.source,
                key="gpus",
            )
        chosen.append(gpu)
    return chosen


def _pick(selection: GpuSelection, candidates: list[Gpu]) -> tuple[list[Gpu], list[str]]:
    by_free = sorted(candidates, key=lambda gpu: -(gpu.free_bytes or 0))  # stable: PCI order
    notes = []
    if len(candidates) < selection.count:
        notes.append(
            f"the profile picks {selection.count} GPUs and {len(candidates)} can be seen: "
            f"using {len(candidates)}"
        )
    return by_free[: selection.count], notes


def _member(member: int | str, visible: Sequence[Gpu], profile: Profile) -> Gpu:
    found = [gpu for i, gpu in enumerate(visible) if _is(member, i, gpu)]
    if len(found) == 1:
        return found[0]
    listing = ", ".join(f"{i}: {label(gpu)}" for i, gpu in enumerate(visible))
    what = "no visible GPU" if not found else "more than one GPU"
    raise ProfileError(
        f"gpus names {member!r}, and {what} is that; visible are {listing}",
        hint="`gpuconf plan dedicated` lists the GPUs; CUDA_VISIBLE_DEVICES may hide some",
        file=profile.source,
        key="gpus",
    )


def _is(member: int | str, position: int, gpu: Gpu) -> bool:
    """Whether ``member`` of a profile means ``gpu``, the ``position``-th visible one."""
    return member == position if isinstance(member, int) else bool(match_uuid(member, [gpu]))


def rules_for(gpu: Gpu, visible: Sequence[Gpu], profile: Profile) -> GpuRules:
    position = visible.index(gpu)
    for member, rules in profile.per_gpu:
        if _is(member, position, gpu):
            return rules
    return GpuRules(profile.memory, profile.virtual_devices)


def unmatched_rules(profile: Profile, visible: Sequence[Gpu]) -> list[str]:
    """A note for every ``per_gpu`` entry that is for no visible GPU."""
    return [
        f"per_gpu.{member} is for no visible GPU and does nothing"
        for member, _ in profile.per_gpu
        if not any(_is(member, position, gpu) for position, gpu in enumerate(visible))
    ]
