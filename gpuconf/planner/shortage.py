"""Apply the profile's policy to cards with less memory left than it needs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconf.errors import ShortageError
from gpuconf.hardware.inventory import Gpu
from gpuconf.planner.leases import holder, is_leased
from gpuconf.planner.plan import GpuPlan, label
from gpuconf.planner.selection import rules_for
from gpuconf.planner.shares import larger_share
from gpuconf.profile.model import GpuRules, OnShortage, Profile
from gpuconf.units import short_duration, sized


def settle_shortages(
    planned: list[GpuPlan], profile: Profile, visible: Sequence[Gpu]
) -> tuple[list[GpuPlan], list[str]]:
    """Drop short GPUs if their policy or the choice of GPUs allows it; raise for the others.

    ``gpus: all`` means every GPU with enough memory: a small card for the display, or one that a
    colleague has filled, is skipped if another is left.  GPUs chosen by name or number are all
    required.
    """
    fitting = [plan for plan in planned if plan.shortage is None]
    others_do = profile.gpus.kind == "all" and bool(fitting)
    notes = []
    for plan in planned:
        if plan.shortage is None:
            continue
        rules = rules_for(plan.gpu, visible, profile)
        policy = rules.memory.on_shortage
        if policy.action != "cpu" and not others_do:
            choosable = visible if profile.gpus.kind == "pick" else [each.gpu for each in planned]
            raise shortage_error(plan, profile, rules, choosable)
        why = "on_shortage: cpu" if policy.action == "cpu" else "another GPU has room"
        notes.append(f"{label(plan.gpu)} is skipped: {plan.shortage} ({why})")
    if planned and not fitting:
        notes.append("no GPU is left, so the program runs on the CPU")
    return fitting, notes


def shortage_error(
    plan: GpuPlan, profile: Profile, rules: GpuRules, choosable: Sequence[Gpu] = ()
) -> ShortageError:
    """Build the error for ``plan.shortage``, with the full arithmetic and who holds the card.

    ``choosable`` are the GPUs that could be used instead.
    """
    policy = rules.memory.on_shortage
    sums = "".join(f"\n  {line}" for line in plan.arithmetic)
    held_by = _held_by(plan.gpu, profile)
    held = f"\n  held by {held_by}" if held_by else ""
    waits = policy.action == "wait" and plan.can_ever_fit
    where = f"not enough memory on {label(plan.gpu)}"
    if plan.is_behind:
        where = f"it must wait its turn on {label(plan.gpu)}"
    return ShortageError(
        f"profile {profile.name}: {where}: {plan.shortage}{sums}{held}",
        hint=larger_share(plan.gpu, rules) or _shortage_hint(plan, profile, policy, choosable),
        shortage=plan.shortage,
        wait_s=policy.wait_s if waits else None,
        held_by=held_by,
        wanted={gpu.uuid: plan.least_free_bytes for gpu in choosable if gpu.uuid},
    )


def _held_by(gpu: Gpu, profile: Profile) -> str:
    """List every process that holds memory of ``gpu`` or has leased some, in words."""
    if not is_leased(gpu, profile.memory):
        gpu = gpu._replace(leases=())
    holders = [f"{holder(each)}: {sized(each.lease_bytes)} leased" for each in gpu.leases]
    holders += [
        f"pid {p.pid} ({p.name or 'name unknown'}) {sized(p.used_bytes) if p.used_bytes else '?'}"
        for p in gpu.unleased
    ]
    return "; ".join(holders)


def _shortage_hint(
    plan: GpuPlan, profile: Profile, policy: OnShortage, choosable: Sequence[Gpu]
) -> str:
    if not plan.can_ever_fit:
        return (
            "even if nothing else used it, this profile would not fit this GPU: its at_least, or "
            "its virtual_devices, ask for more than its limit leaves; write `memory: {at_least: "
            f"null}}`, or raise the limit: `gpuconf profiles show {profile.name}` shows the rules"
        )
    parts = ["`gpuconf ps` shows who holds the card"]
    unpromised = (plan.gpu.free_bytes or 0) - plan.gpu.promised_bytes
    if plan.least_free_bytes > unpromised:
        parts[:0] = [f"{profile.name} needs {sized(plan.least_free_bytes)} free"]
    if policy.action == "wait" and policy.wait_s is not None:
        parts.append(
            f"a program waits for this, {_at_most(policy.wait_s)}, first come first served"
        )
    else:
        parts.append(
            "to wait in line, `gpuconf run --wait 10min -- ...`, or `memory: {on_shortage: {wait: "
            "10min}}` in a profile (`gpuconf init` makes one)"
        )
    if any(lease.is_parent for lease in plan.gpu.leases):
        parts.append("give a program and its workers a memory_limit each")
    if len(choosable) > 1 and profile.gpus.kind != "pick":
        parts.append("use another GPU, gpus: {pick: most-free}")
    return "; ".join(parts)


def _at_most(seconds: float) -> str:
    length = short_duration(seconds)
    return length if seconds == float("inf") else f"up to {length}"
