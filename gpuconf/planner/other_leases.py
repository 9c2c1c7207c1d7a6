"""How much of a GPU other programs' leases leave, and the lease for a limit, with lines to show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from gpuconf.basics.units import sized
from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess
from gpuconf.planner.plan import GpuPlan, Plan, label
from gpuconf.profile.model import GpuRules, MemoryRules, Profile

_MOST_SHOWN = 4


def wants_leases(profile: Profile) -> bool:
    """Whether ``profile`` may lease some GPU: it has a limit there, and leasing is on."""
    rules = [each for _, each in profile.per_gpu]
    rules.append(GpuRules(profile.memory, profile.virtual_devices))
    return profile.gpus.kind != "none" and any(
        each.memory.lease is not False and has_limit(each) for each in rules
    )


def has_limit(rules: GpuRules) -> bool:
    """Whether ``rules`` limit memory by themselves, without an administrator's policy."""
    memory = rules.memory
    limits = (memory.per_process_gpu_memory_fraction, memory.memory_limit)
    others = (*limits, memory.keep_free, memory.context)
    is_shared = memory.share not in (None, "none")
    return is_shared or bool(rules.virtual_devices) or any(each is not None for each in others)


def lease_notes(planned: Sequence[GpuPlan], profile: Profile) -> list[str]:
    """Return notes for a program about its limits: reduced by other programs' leases, or
    missing."""
    notes = []
    for plan in planned:
        cut = plan.uncut_limit_bytes
        if cut is not None and plan.limit_bytes is not None and plan.limit_bytes < cut:
            notes.append(
                f"limit on {label(plan.gpu)} reduced from {sized(cut)} to "
                f"{sized(plan.limit_bytes)}: other processes have reserved "
                f"{sized(plan.gpu.promised_bytes)} that they are not using yet"
            )
    if profile.memory.on_shortage.action != "fail" and not wants_leases(profile):
        rules = [profile.memory, *(each.memory for _, each in profile.per_gpu)]
        if all(each.at_least is None for each in rules):
            notes.append(
                f"on_shortage has no effect in profile {profile.name}, which has neither a limit "
                "nor at_least (`extends: shared-desktop` has both)"
            )
    return notes


def is_within(bound: Plan, made: Plan) -> bool:
    """Whether ``bound`` uses the same GPUs as ``made``, and no more memory on any of them."""
    if bound.hides_gpus or made.hides_gpus or len(bound.gpus) != len(made.gpus):
        return bound.hides_gpus and made.hides_gpus
    return all(
        ours.gpu.identity == theirs.gpu.identity
        and (ours.limit_bytes or 0) <= (theirs.limit_bytes or 0)
        for ours, theirs in zip(bound.gpus, made.gpus, strict=True)
    )


def is_leased(gpu: Gpu, memory: MemoryRules) -> bool:
    """Whether leases apply to ``gpu``: as the profile says, or else if it is not exclusive."""
    return not gpu.is_exclusive if memory.lease is None else memory.lease


def free_for_lease(gpu: Gpu, memory: MemoryRules) -> int | None:
    """Return the free memory minus what other leaseholders may still take; None if unknown."""
    if gpu.free_bytes is None:
        return None
    free = gpu.free_bytes + gpu.own_bytes
    return free - gpu.promised_bytes if is_leased(gpu, memory) else free


def without_gpuconf(gpu: Gpu, profile: Profile) -> list[GpuProcess]:
    """Return the processes that compute without a lease, largest first; empty if none counts."""
    if not (wants_leases(profile) and is_leased(gpu, profile.memory)):
        return []
    # One without a name may have its lease in another container.
    others = [p for p in gpu.unleased if p.kind == "compute" and p.name and p.pid != os.getpid()]
    return sorted(others, key=lambda process: -(process.used_bytes or 0))


def lease_lines(gpu: Gpu, memory: MemoryRules) -> list[str]:
    """Return a line for each lease held by another program, the largest promise first."""
    if not is_leased(gpu, memory):
        return []
    leases = sorted(gpu.leases, key=lambda lease: -lease.promised_bytes)
    shared = gpu.estimated
    lines = [_line(lease, is_shared=lease in shared) for lease in leases[:_MOST_SHOWN]]
    rest = leases[_MOST_SHOWN:]
    if rest:
        more = "1 more reservation" if len(rest) == 1 else f"{len(rest)} more reservations"
        size = sum(lease.lease_bytes if shared else lease.promised_bytes for lease in rest)
        lines.append(f"{more}: {sized(size)} {'reserved' if shared else 'not used yet'}")
    if shared:
        used, left = sized(sum(each.used_bytes or 0 for each in leases)), sized(gpu.promised_bytes)
        lines.append(
            f"these reservations combined: about {used} in use, at most {left} not used yet"
        )
    return lines


def _line(lease: CardLease, *, is_shared: bool) -> str:
    part = "an unknown amount in use"
    if lease.used_bytes is None:
        part += ", so all of it is counted"
    elif not is_shared:
        about = "about " if lease.is_estimate else ""
        used, rest = sized(lease.used_bytes), sized(lease.promised_bytes)
        part = f"{about}{used} in use, {rest} not used yet"
    return f"reserved by {holder(lease)}: {sized(lease.lease_bytes)}, {part}"


def held_by(
    leases: Iterable[CardLease],
    processes: Iterable[GpuProcess],
    strangers: Sequence[GpuProcess] = (),
) -> str:
    """List who has reserved or uses memory on a GPU, in words; ``strangers`` run without
    gpuconf."""
    found = []
    for lease in leases:
        about = "about " if lease.is_estimate else ""
        used = "" if lease.used_bytes is None else f", {about}{sized(lease.used_bytes)} in use"
        found.append(f"{holder(lease)}: {sized(lease.lease_bytes)} reserved{used}")
    for each in processes:
        used = f"{sized(each.used_bytes)} in use" if each.used_bytes else "use unknown"
        without = ", without gpuconf" if each in strangers else ""
        found.append(f"pid {each.pid} ({each.name or 'name unknown'}): {used}{without}")
    return "; ".join(found)


def holder(lease: CardLease) -> str:
    """Describe who holds a lease."""
    program = f" {lease.program}" if lease.program else ""
    who = f"pid {lease.pid}{program}" + (f" ({lease.user})" if lease.user else "")
    return f"{who}, which started this program" if lease.is_parent else who
