"""The GPUs for the report: facts and plan -> memory bars, holders, remarks.  Pure."""

from __future__ import annotations

from datetime import datetime, timezone

from gpuconf.basics.units import sized
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.probe_results import MeasuredHolder
from gpuconf.commands.doctor.report import CardReport, MemoryBar
from gpuconf.machine.cards import CardLease, Gpu, GpuProcess
from gpuconf.machine.cards.health import CardHealth
from gpuconf.machine.cards.holders import Process, holders_of
from gpuconf.planner import GpuPlan
from gpuconf.planner.visibility import see


def cards_of(facts: Facts) -> tuple[CardReport, ...]:
    """All GPUs in the machine, in NVML's order."""
    environ = facts.environ
    value, order = environ.get("CUDA_VISIBLE_DEVICES"), environ.get("CUDA_DEVICE_ORDER")
    seen = see(value, order, facts.inventory)
    visible = {gpu.identity for gpu in seen.devices}
    plan = facts.profile.plan
    planned = {each.gpu.identity: each for each in plan.gpus} if plan else {}
    return tuple(_card(gpu, facts, visible, planned) for gpu in facts.inventory.gpus)


def _card(
    gpu: Gpu, facts: Facts, visible: set[object], planned: dict[object, GpuPlan]
) -> CardReport:
    plan = planned.get(gpu.identity)
    shown = shown_holders(gpu, facts)
    instances = tuple(_card(part, facts, visible, planned) for part in gpu.mig_instances)
    is_visible = gpu.identity in visible or any(part.is_visible for part in instances)
    return CardReport(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        total_bytes=gpu.total_bytes,
        free_bytes=gpu.free_bytes,
        used_bytes=gpu.used_bytes,
        promised_bytes=gpu.promised_bytes if gpu.leases else None,
        compute_capability=gpu.compute_capability,
        display_active=gpu.display_active,
        pci_bus_id=gpu.pci_bus_id,
        is_visible=is_visible,
        limit_bytes=plan.limit_bytes if plan else None,
        arithmetic=plan.sums if plan else (),
        bar=_bar(gpu, shown, plan),
        holders=shown,
        remarks=tuple(_remarks(gpu, facts, is_visible=is_visible, is_planned=plan is not None)),
        instances=instances,
    )


def _bar(
    gpu: Gpu, shown: tuple[MeasuredHolder, ...] | None, plan: GpuPlan | None
) -> MemoryBar | None:
    """The four parts; without a limit, the profile may take all free memory."""
    if gpu.total_bytes is None or gpu.free_bytes is None or gpu.mig_instances:
        return None
    used = max(gpu.total_bytes - gpu.free_bytes, 0)
    ours = sum(holder.used_bytes or 0 for holder in shown or () if holder.is_ours)
    ours = min(ours, used)
    may_take = 0
    if plan is not None:
        limit = gpu.free_bytes if plan.limit_bytes is None else plan.limit_bytes
        may_take = min(limit, gpu.free_bytes)
    return MemoryBar(used - ours, ours, may_take, gpu.free_bytes - may_take)


def shown_holders(gpu: Gpu, facts: Facts) -> tuple[MeasuredHolder, ...] | None:
    """The holders of memory or leases, largest first; None if unknown."""
    found = holders_of(gpu, facts.processes)
    if found is None and not gpu.leases:
        return None
    leases = {process.pid: lease for process, lease in gpu.holders if process is not None}
    shown = [_shown(listed, known, leases[listed.pid]) for listed, known in found or ()]
    shown += [_leasing(lease) for process, lease in gpu.holders if process is None and lease]
    return tuple(sorted(shown, key=lambda each: -max(each.used_bytes or 0, each.lease_bytes or 0)))


def _leasing(lease: CardLease) -> MeasuredHolder:
    """A lease holder that the driver does not list; as far as known, it has taken no memory."""
    return MeasuredHolder(
        lease.pid,
        name=lease.program,
        user=lease.user,
        used_bytes=None if lease.used_bytes is None or lease.is_estimate else 0,
        since=_time(lease.since) if lease.since is not None else None,
        is_ours=lease.is_ours,
        lease_bytes=lease.lease_bytes,
    )


def _shown(listed: GpuProcess, known: Process, lease: CardLease | None) -> MeasuredHolder:
    return MeasuredHolder(
        listed.pid,
        name=listed.name,
        user=known.user,
        used_bytes=listed.used_bytes,
        since=_time(known.started) if known.started is not None else None,
        kind=listed.kind,
        state=known.state,
        is_ours=known.is_ours,
        lease_bytes=None if lease is None else lease.lease_bytes,
    )


def _time(seconds: float) -> str:
    """ISO 8601 in the machine's local time zone, to the second."""
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    return moment.astimezone().isoformat(timespec="seconds")


def _remarks(gpu: Gpu, facts: Facts, *, is_visible: bool, is_planned: bool) -> list[str]:
    health = facts.health.get(gpu.index, CardHealth())
    found = []
    if health.problem is not None:
        return [{"lost": "lost", "forbidden": "not accessible to this user"}[health.problem]]
    if gpu.display_active:
        found.append("drives the display")
    if gpu.mig_enabled:
        count = len(gpu.mig_instances)
        found.append(f"MIG: {count} instance{'' if count == 1 else 's'}")
    if health.compute_mode in ("exclusive", "prohibited"):
        found.append(f"compute mode {health.compute_mode}")
    if gpu.total_bytes is None and not gpu.mig_instances:
        found.append("memory unknown")
    if gpu.leases:
        found.append(f"reserved, not in use yet: {sized(gpu.promised_bytes)}")
    if gpu.ahead:
        found.append(f"{gpu.ahead} program{'' if gpu.ahead == 1 else 's'} waiting for memory")
    if not is_visible:
        found.append("not visible to CUDA programs")
    elif not is_planned and not gpu.mig_instances and facts.profile.plan is not None:
        found.append(f"not used under profile {facts.profile.name}")
    return found
