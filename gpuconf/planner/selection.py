"""Select the visible GPUs that a profile requests, and the rules for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.errors import ProfileError, ShortageError
from gpuconf.machine.cards.inventory import Gpu, GpuQuota
from gpuconf.machine.cards.visible_devices import VisibleDevices, match_uuid
from gpuconf.planner.other_leases import free_for_lease, is_leased
from gpuconf.planner.plan import label
from gpuconf.profile.model import GpuRules, Profile


class Inherited(NamedTuple):
    """The CUDA_VISIBLE_DEVICES that a parent process's plan wrote, and the GPUs it names.

    The plan of a child stays within it: planning again from the user's own list could select GPUs
    that the parent excluded.
    """

    value: str
    visible: VisibleDevices

    def within(self, devices: tuple[Gpu, ...]) -> list[Gpu]:
        """Return the ``devices`` that the parent chose, in the parent's order."""
        return [gpu for gpu in self.visible.devices if gpu in devices]


class Selection(NamedTuple):
    """The chosen GPUs, in order; the profile's numbers are indices into ``counted``."""

    chosen: list[Gpu]
    counted: tuple[Gpu, ...]
    notes: list[str]


def select(
    profile: Profile,
    visible: tuple[Gpu, ...],
    inherited: Inherited | None = None,
    quota: GpuQuota | None = None,
) -> Selection:
    """Select the GPUs of ``visible`` that the profile requests, within a parent's choice.

    Raises ShortageError if ``quota`` does not allow a GPU that the profile names, or allows none at
    all.
    """
    if profile.gpus.kind == "list":
        listed = _select_listed(profile, visible, inherited)
        chosen, fewer = _within_quota(profile, listed.chosen, quota)
        return listed._replace(chosen=chosen, notes=fewer)
    allowed = list(visible) if inherited is None else inherited.within(visible)
    sound, notes = _without_silent(allowed)
    sound, fewer = _within_quota(profile, sound, quota)
    notes += fewer
    if profile.gpus.kind == "pick":
        sound, fewer = _pick(profile, sound)
        notes += fewer
    return Selection(sound, visible, notes)


def _select_listed(
    profile: Profile, visible: tuple[Gpu, ...], inherited: Inherited | None
) -> Selection:
    """Select the members of the list.

    A child with its parent's profile gets the same GPUs for the same numbers, which index the
    user's list. If that selects a GPU outside the parent's choice, a number is an index into the
    parent's choice, as it is for CUDA and for every program without gpuconf.
    """
    if inherited is None or _leads_within(profile, visible, inherited):
        chosen, counted = _listed(profile, visible), visible
    else:
        counted = tuple(inherited.within(visible))
        chosen = _listed(profile, counted, inherited.value)
    _refuse_silent(profile, chosen, visible)
    return Selection(chosen, counted, [])


def _leads_within(profile: Profile, visible: tuple[Gpu, ...], inherited: Inherited) -> bool:
    try:
        return set(_listed(profile, visible)) <= set(inherited.within(visible))
    except ProfileError:
        return False  # next, the parent's choice is tried and raises its own error


def _is_silent(gpu: Gpu) -> bool:
    """Whether NVML counts the GPU but reports nothing about it (lost, or inaccessible to this
    user).
    """
    return gpu._replace(share=None) == Gpu(gpu.index)


def _without_silent(allowed: list[Gpu]) -> tuple[list[Gpu], list[str]]:
    """Return ``allowed`` without the GPUs that do not answer, and a note for each of these.

    Such a GPU can be named only by its number, and one number in CUDA_VISIBLE_DEVICES makes all
    entries numbers.  CUDA may skip that GPU when it counts, or hide every GPU after it.  If no
    GPU answers, all are kept: CUDA works on machines whose NVML reports almost nothing (Jetson).
    """
    sound = [gpu for gpu in allowed if not _is_silent(gpu)]
    if not sound:
        return allowed, []
    return sound, [f"{_silence(gpu)}: not used" for gpu in allowed if _is_silent(gpu)]


def _silence(gpu: Gpu) -> str:
    return f"GPU {gpu.index} does not respond to NVML (lost, or not accessible to this user)"


def _refuse_silent(profile: Profile, chosen: Sequence[Gpu], visible: Sequence[Gpu]) -> None:
    """Raise for a listed GPU that does not answer while another does; see _without_silent."""
    silent = [gpu for gpu in chosen if _is_silent(gpu)]
    if not silent or all(_is_silent(gpu) for gpu in visible):
        return
    raise ProfileError(
        f"gpus names {', '.join(str(member) for member in profile.gpus.members)}, but "
        f"{_silence(silent[0])}",
        hint="name another GPU; `gpuconf doctor` shows what is wrong with this GPU",
        file=profile.source,
        key="gpus",
    )


def _listed(
    profile: Profile, visible: Sequence[Gpu], chosen_by_parent: str | None = None
) -> list[Gpu]:
    chosen: list[Gpu] = []
    for member in profile.gpus.members:
        gpu = _member(member, visible, profile, chosen_by_parent)
        if gpu in chosen:
            raise ProfileError(
                f"gpus names {label(gpu)} twice, the second time as {member!r}; with a duplicate "
                "in the list, CUDA detects no GPU at all",
                hint="name each GPU once, by its index or its UUID",
                file=profile.source,
                key="gpus",
            )
        chosen.append(gpu)
    return chosen


def _pick(profile: Profile, candidates: list[Gpu]) -> tuple[list[Gpu], list[str]]:
    """Pick the GPUs with the most memory free for a lease; GPUs with a waiting queue come last."""
    selection = profile.gpus
    in_order = _most_free_first(profile, candidates)
    notes = []
    if len(candidates) < selection.count:
        notes.append(
            f"the profile picks {selection.count} GPUs, but only {len(candidates)} can be used"
        )
    return in_order[: selection.count], notes


def _most_free_first(profile: Profile, candidates: Sequence[Gpu]) -> list[Gpu]:
    def key(gpu: Gpu) -> tuple[bool, int]:
        waits = bool(gpu.ahead) and is_leased(gpu, profile.memory)
        return waits, -(free_for_lease(gpu, profile.memory) or 0)

    return sorted(candidates, key=key)  # stable: equal GPUs stay in PCI order


def _within_quota(
    profile: Profile, candidates: list[Gpu], quota: GpuQuota | None
) -> tuple[list[Gpu], list[str]]:
    """Return the GPUs that an administrator allows, with a note for the others.

    GPUs that the user's programs already use come first, then those with the most free memory.
    """
    if quota is None or quota.most is None:
        return candidates, []
    used = [gpu for gpu in candidates if gpu.uuid in quota.uuids]
    unused = _most_free_first(profile, [gpu for gpu in candidates if gpu not in used])
    allowed = [*used, *unused][: max(quota.most - len(quota.uuids) + len(used), 0)]
    kept = [gpu for gpu in candidates if gpu in allowed]
    left_out = ", ".join(label(gpu) for gpu in candidates if gpu not in allowed)
    if not left_out:
        return kept, []
    says = f"{quota.name}: at most {quota.most} GPU" + ("s" if quota.most > 1 else "")
    says += f", and other programs use {len(quota.uuids)}" if quota.uuids else ""
    policy = profile.memory.on_shortage
    if policy.action != "cpu" and (not kept or profile.gpus.kind == "list"):
        raise ShortageError(
            f"{says}; profile {profile.name} needs {left_out}",
            hint="choose fewer GPUs, or wait: gpuconf run --wait 10min -- COMMAND",
            shortage=says,
            wait_s=policy.wait_s if policy.action == "wait" else None,
        )
    return kept, [f"{says}: not using {left_out}"]


def _member(
    member: int | str, visible: Sequence[Gpu], profile: Profile, chosen_by_parent: str | None
) -> Gpu:
    found = [gpu for i, gpu in enumerate(visible) if _is(member, i, gpu)]
    if len(found) == 1:
        return found[0]
    listing = ", ".join(
        f"{i}: {gpu.name or 'GPU'} ({(gpu.uuid or '')[:12]})" for i, gpu in enumerate(visible)
    )
    what = "no visible GPU" if not found else "more than one GPU"
    hint = "`gpuconf ps` lists the GPUs; CUDA_VISIBLE_DEVICES may hide some of them"
    if chosen_by_parent is not None:
        hint = (
            f"CUDA_VISIBLE_DEVICES={chosen_by_parent}, inherited from the parent process, hides "
            "the others; name one of these, or let the parent's profile use more GPUs"
        )
    raise ProfileError(
        f"gpus: {member!r} matches {what} (visible: {listing})",
        hint=hint,
        file=profile.source,
        key="gpus",
    )


def _is(member: int | str, position: int, gpu: Gpu) -> bool:
    """Whether ``member`` of a profile refers to ``gpu``, the visible GPU at index ``position``."""
    return member == position if isinstance(member, int) else bool(match_uuid(member, [gpu]))


def rules_for(gpu: Gpu, counted: Sequence[Gpu], profile: Profile) -> GpuRules:
    """Return the rules of ``gpu``: its ``per_gpu`` entry, found by index or UUID, or the general
    ones.  Raises ProfileError if two entries name the GPU.
    """
    position = counted.index(gpu) if gpu in counted else -1
    own = [(member, rules) for member, rules in profile.per_gpu if _is(member, position, gpu)]
    if len(own) > 1:
        raise ProfileError(
            f"per_gpu names {label(gpu)} twice, as {own[0][0]} and as {own[1][0]}",
            hint="write one entry for each GPU",
            file=profile.source,
            key="per_gpu",
        )
    rules = own[0][1] if own else GpuRules(profile.memory, profile.virtual_devices)
    return rules._replace(processes=profile.processes)


def unmatched_rules(profile: Profile, visible: Sequence[Gpu]) -> list[str]:
    """Return a note for every ``per_gpu`` entry that matches no visible GPU."""
    return [
        f"per_gpu.{member} does not match any visible GPU; ignored"
        for member, _ in profile.per_gpu
        if not any(_is(member, position, gpu) for position, gpu in enumerate(visible))
    ]
