"""Which of the visible GPUs a profile means, and the CUDA_VISIBLE_DEVICES that says so."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconf.errors import ProfileError
from gpuconf.hardware import VisibleDevices, match_uuid, narrow, visible_devices_value
from gpuconf.hardware.inventory import Gpu
from gpuconf.planner.plan import GpuPlan, label
from gpuconf.profile.model import GpuRules, GpuSelection, Profile
from gpuconf.units import mib


def select(
    profile: Profile, visible: Sequence[Gpu], inherited: Sequence[Gpu]
) -> tuple[list[Gpu], list[str]]:
    selection = profile.gpus
    if selection.kind == "list":
        return [_member(member, visible, profile) for member in selection.members], []
    if selection.kind == "pick":
        return _pick(selection, [g for g in visible if g in inherited] or list(visible))
    return list(visible), []


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


def value_to_write(
    chosen: Sequence[Gpu], visible: VisibleDevices, value: str | None
) -> str | None:
    """The CUDA_VISIBLE_DEVICES that shows ``chosen``; None to leave the variable alone.

    CUDA numbers GPUs fastest first unless CUDA_DEVICE_ORDER says PCI_BUS_ID, so UUIDs are written
    where the choice narrows or reorders, or that order is unknown.  A list that the user wrote in
    indices whose order is unknown keeps its own entries: other names could mean other cards.
    """
    if not visible.order_certain and value is not None:
        narrowed = narrow(visible, chosen)
        return None if len(chosen) == len(visible.devices) else narrowed
    if list(chosen) == list(visible.devices) and visible.order_certain:
        return None
    return visible_devices_value(chosen)


def settle_order(
    planned: list[GpuPlan], visible: VisibleDevices, value: str | None
) -> tuple[list[GpuPlan], list[str]]:
    """Indices on unequal cards without PCI_BUS_ID: which card is meant is CUDA's secret."""
    if visible.order_certain or value is None or len(planned) == 0:
        return planned, []
    limits = [plan.limit_bytes for plan in planned if plan.limit_bytes is not None]
    note = (
        f"CUDA_VISIBLE_DEVICES={value} counts unequal GPUs fastest first, which no tool can "
        "foresee; `export CUDA_DEVICE_ORDER=PCI_BUS_ID` makes it nvidia-smi's order"
    )
    if not limits:
        return planned, [note]
    line = f"limit = {mib(min(limits))}, the smallest of all, as the GPUs' order is uncertain"
    return [
        plan._replace(limit_bytes=min(limits), arithmetic=(*plan.arithmetic, line))
        for plan in planned
    ], [note]
