"""Apply the profile's policy to GPUs with less memory left than the profile needs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconf.errors import ShortageError
from gpuconf.machine.cards.inventory import Cap, Gpu
from gpuconf.planner.other_leases import free_for_lease, held_by, is_leased, without_gpuconf
from gpuconf.planner.plan import GpuPlan, label
from gpuconf.planner.scheduler_share import larger_share
from gpuconf.planner.selection import rules_for
from gpuconf.profile.model import GpuRules, Profile


def settle_shortages(
    planned: list[GpuPlan], profile: Profile, visible: Sequence[Gpu]
) -> tuple[list[GpuPlan], list[str]]:
    """Drop GPUs short of memory if their policy or the choice of GPUs allows it; else raise.

    ``gpus: all`` means every GPU with enough memory: a small GPU for the display, or one that a
    colleague has filled, is skipped if another GPU is left. GPUs chosen by name or number are all
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
        notes.append("no GPU remains, so the program runs on the CPU")
    return fitting, notes


def shortage_error(
    plan: GpuPlan, profile: Profile, rules: GpuRules, choosable: Sequence[Gpu] = ()
) -> ShortageError:
    """Build the error for ``plan.shortage``, with the full arithmetic and who uses the GPU.

    ``choosable`` are the GPUs that could be used instead.
    """
    policy = rules.memory.on_shortage
    sums = "".join(f"\n  {line}" for line in plan.arithmetic)
    strangers = without_gpuconf(plan.gpu, profile)
    how = "runs without gpuconf: restart it with `import gpuconf.auto` as its first line"
    restart = next((f"pid {p.pid} ({p.name}) {how}" for p in strangers), "")
    counted = plan.gpu if is_leased(plan.gpu, profile.memory) else plan.gpu._replace(leases=())
    users = held_by(counted.leases, counted.unleased, strangers)
    held = f"\n  used or reserved by {users}" if users else ""
    if "GH200" in (plan.gpu.name or ""):  # its memory is also a NUMA node of the host
        held += (
            "\n  this may include the host's page cache, which `sudo sysctl vm.drop_caches=1` frees"
        )
    waits = policy.action == "wait" and plan.can_ever_fit
    problem = f"not enough GPU memory for profile {profile.name} on {label(plan.gpu)}"
    allowance = _used_up_allowance(plan, rules)
    if plan.is_behind:
        problem = f"other programs are already waiting for {label(plan.gpu)}"
    elif allowance is not None:
        problem = (
            f"{allowance.name} leaves too little for profile {profile.name} on {label(plan.gpu)}"
        )
    least = plan.least_free_bytes if plan.can_ever_fit else 0
    queues = allowance is None  # otherwise it would block programs of users who may have the memory
    return ShortageError(
        f"{problem}: {plan.shortage}{sums}{held}",
        hint=larger_share(plan.gpu, rules) or _shortage_hint(plan, profile, rules, restart),
        shortage=plan.shortage,
        wait_s=policy.wait_s if waits else None,
        held_by=users,
        restart=restart,
        wanted={gpu.uuid: least for gpu in choosable if gpu.uuid and queues},
    )


def _used_up_allowance(plan: GpuPlan, rules: GpuRules) -> Cap | None:
    """Return an administrator's cap that leaves too little, although the GPU has enough memory."""
    gpu, free = plan.gpu, free_for_lease(plan.gpu, rules.memory)
    for cap in gpu.caps:
        left = cap.limit_bytes - max(cap.used_bytes - gpu.own_bytes, 0)
        if cap.is_policy and free is not None and left < plan.least_free_bytes <= free:
            return cap
    return None


def _shortage_hint(plan: GpuPlan, profile: Profile, rules: GpuRules, restart: str) -> str:
    policy = rules.memory.on_shortage
    if not plan.can_ever_fit:
        asked = {
            "at_least": rules.memory.at_least,
            "virtual_devices": rules.virtual_devices,
            "--processes": rules.processes > 1,
        }
        lower = " or ".join(name for name, value in asked.items() if value)
        shown = f"`gpuconf profiles show {profile.name}` shows the rules"
        return f"lower {lower}, or raise the limit: {shown}" if lower else shown
    if any(lease.is_parent for lease in plan.gpu.leases):
        return "set a memory_limit for this program and one for the program that started it"
    see = "see what uses the GPU with `gpuconf ps`" + (f"\n        {restart}" if restart else "")
    if policy.action == "wait":
        return see
    return f"wait for memory with `gpuconf run --wait 10min -- COMMAND`, or {see}"
