"""How much of one GPU this process may take, with the arithmetic behind it.

The rule is the one in docs/reference/profiles.md::

    limit = min(fraction × total, memory_limit, free - reserved by others - keep_free - context,
                each cap of the kernel and of an administrator - context,
                a scheduler's share × (total - held by others - keep_free) - context)
    lease = processes × (min(limit, reserve) + context); without reserve, the whole limit

With several processes the limit applies to each: they share the free memory equally, and the lease
covers all of them.  A term whose figures are unknown is dropped (and a line says so).  The limit is
rounded down to whole MiB because TensorFlow's ``memory_limit`` is an integer number of MiB.
"""

from __future__ import annotations

from gpuconf.basics.units import MIB, Amount, sized
from gpuconf.machine.cards.inventory import Cap, Gpu
from gpuconf.planner.context import context_bytes, keep_free_bytes
from gpuconf.planner.other_leases import free_for_lease, has_limit, is_leased, lease_lines
from gpuconf.planner.plan import GpuPlan
from gpuconf.planner.scheduler_share import share_term
from gpuconf.profile.model import GpuRules

_FOR_HOST = 10  # the part of unified memory that stays for the host: a choice, not a measurement


def plan_gpu(gpu: Gpu, rules: GpuRules) -> GpuPlan:
    """Apply ``rules`` to ``gpu``; anything missing is described in the plan's ``shortage``."""
    limit, lines = _limit(gpu, rules)
    uncut, _ = _limit(gpu._replace(leases=()), rules) if gpu.leases else (limit, [])
    memory = rules.memory
    fraction = memory.per_process_gpu_memory_fraction
    plan = GpuPlan(
        gpu,
        limit,
        memory.allow_growth,
        fraction,
        arithmetic=tuple(lines),
        uncut_limit_bytes=uncut,
    )
    plan = _with_at_least(plan, rules)
    plan = _with_logical_devices(plan, rules) if rules.virtual_devices else plan
    return with_lease(_apply_queue(plan, rules), rules)


def _limit(gpu: Gpu, rules: GpuRules) -> tuple[int | None, list[str]]:
    terms, lines = _terms(gpu, rules)
    if not terms:
        return None, [*lines, "no limit: the framework may use all free GPU memory"]
    smallest = min(terms)
    limit = max(smallest, 0) // MIB * MIB
    if len(terms) > 1 and smallest >= 0:
        lines.append(f"limit = min({', '.join(_mib(term) for term in terms)}) = {_mib(limit)}")
    else:
        lines.append(f"limit = {_mib(limit)}")
    return limit, lines


def _terms(gpu: Gpu, rules: GpuRules) -> tuple[list[int], list[str]]:
    """Return the terms of the minimum with known figures, and a line for every term."""
    memory, total = rules.memory, gpu.total_bytes
    terms: list[int] = []
    lines: list[str] = []
    fraction = memory.per_process_gpu_memory_fraction
    if fraction is not None:
        if total is None:
            lines.append(f"fraction {fraction:g} × total: the total is unknown here")
        else:
            terms.append(Amount(share=fraction).of(total) or 0)
            lines.append(f"fraction {fraction:g} × {_mib(total)} total = {_mib(terms[-1])}")
    if memory.memory_limit is not None:
        size = memory.memory_limit.of(total)
        if size is None:
            lines.append(f"memory_limit {memory.memory_limit}: dropped, the total is unknown")
        else:
            terms.append(size)
            lines.append(f"memory_limit {memory.memory_limit} = {_mib(size)}")
    share, line = share_term(gpu, rules)
    terms += [] if share is None else [share]
    lines += [] if line is None else [line]
    others = (memory.keep_free, memory.context)
    has_policy = any(cap.is_policy for cap in gpu.caps)
    if terms or any(each is not None for each in others) or rules.virtual_devices or has_policy:
        _add_free_term(terms, lines, gpu, rules)
        for cap in gpu.caps:
            _add_cap_term(terms, lines, cap, gpu, rules)
    return terms, lines


def _add_free_term(terms: list[int], lines: list[str], gpu: Gpu, rules: GpuRules) -> None:
    memory, processes = rules.memory, rules.processes
    keep, context = keep_free_bytes(gpu, memory), context_bytes(gpu, memory)
    free = free_for_lease(gpu, memory)
    if gpu.free_bytes is None or free is None or keep is None or context is None:
        unknown = "free memory" if free is None else "total"
        lines.append(f"free - keep_free - context: dropped, the {unknown} is unknown")
        return
    lines += lease_lines(gpu, memory)
    host = _host_bytes(gpu)
    off = (
        (free - gpu.free_bytes - gpu.own_bytes, "reserved by others"),
        (-host, "for the host"),
        (-keep, "keep_free"),
    )
    terms.append((free - host - keep) // processes - context)
    parts = [f"{_mib(gpu.free_bytes)} free"]
    parts += [f"+ {_mib(gpu.own_bytes)} used by this process"] if gpu.own_bytes else []
    parts += [f"- {_mib(-size)} {name}" for size, name in off if size]
    left = " ".join(parts)
    if processes > 1:
        left = f"({left}) / {processes} processes" if len(parts) > 1 else f"{left} / {processes}"
    lines.append(f"{left} - {_mib(context)} context{_result(terms[-1])}")


def _add_cap_term(terms: list[int], lines: list[str], cap: Cap, gpu: Gpu, rules: GpuRules) -> None:
    """Add what the kernel's or an administrator's cap leaves after this process's context."""
    context = context_bytes(gpu, rules.memory)
    if context is None:
        return
    others = max(cap.used_bytes - gpu.own_bytes, 0)
    left = (cap.limit_bytes - others) // rules.processes
    terms.append(left - context)
    shown = f"{cap.name}: {_mib(cap.limit_bytes)}"
    used = "that your other programs may use" if cap.is_policy else "in use"
    shown += f" - {_mib(others)} {used}" if others else ""
    shown += f", / {rules.processes} processes" if rules.processes > 1 else ""
    lines.append(f"{shown} - {_mib(context)} context{_result(terms[-1])}")


def _result(term: int) -> str:
    return f" = {_mib(term)}" if term >= 0 else f": {_mib(-term)} short"


def _with_at_least(plan: GpuPlan, rules: GpuRules) -> GpuPlan:
    needed = _needed(plan.gpu, rules)
    unlimited = free_for_lease(plan.gpu, rules.memory)
    left = plan.limit_bytes if plan.limit_bytes is not None else unlimited
    if left is None or left >= needed:
        return plan
    best = _limit_when_idle(plan.gpu, rules)
    plan = plan._replace(can_ever_fit=best is None or best >= needed)
    return plan._replace(shortage=_short_of(plan, rules, left))


def _short_of(plan: GpuPlan, rules: GpuRules, left_bytes: int) -> str:
    """Say what is missing: free memory, or a limit that is high enough."""
    gpu, memory = plan.gpu, rules.memory
    least, parts = _least_free(gpu, rules)
    free = free_for_lease(gpu, memory)
    if not plan.can_ever_fit or plan.limit_bytes is None or free is None or free >= least:
        left = (
            f"{_mib(left_bytes)} free" if plan.limit_bytes is None else f"limit {_mib(left_bytes)}"
        )
        return left + (f"; at_least is {_mib(_needed(gpu, rules))}" if memory.at_least else "")
    all_free = (gpu.free_bytes or 0) + gpu.own_bytes
    reserved = min(all_free - free, all_free)
    of_others = f", of which other processes have reserved {_mib(reserved)}" if reserved else ""
    return f"{_mib(all_free)} free{of_others}; {_mib(least)} needed ({parts})"


def _least_free(gpu: Gpu, rules: GpuRules) -> tuple[int, str]:
    """Return what must be free and not reserved by other programs, and its parts in words."""
    memory, processes, needed = rules.memory, rules.processes, _needed(gpu, rules)
    keep, context = keep_free_bytes(gpu, memory) or 0, context_bytes(gpu, memory) or 0
    host = _host_bytes(gpu)
    name = "limit" if memory.at_least is None else "at_least"
    parts = f"{_mib(context)} context + {_mib(needed)} {name}"
    parts = f"{processes} × ({parts})" if processes > 1 else parts
    parts = f"{_mib(keep)} keep_free + {parts}" if keep else parts
    parts = f"{_mib(host)} for the host + {parts}" if host else parts
    return processes * (needed + context) + keep + host, parts


def _host_bytes(gpu: Gpu) -> int:
    """Return how much of the memory shared with ``gpu`` is left for the host."""
    return gpu.total_bytes // _FOR_HOST if gpu.is_unified and gpu.total_bytes else 0


def _needed(gpu: Gpu, rules: GpuRules) -> int:
    """Return the memory that must be left: at_least, or a scheduler's share if that is smaller."""
    wanted = rules.memory.at_least
    needed = wanted.of(gpu.total_bytes) or 0 if wanted else 0
    share, _ = share_term(gpu, rules)
    return max(needed if share is None else min(needed, share // MIB * MIB), MIB)


def _limit_when_idle(gpu: Gpu, rules: GpuRules) -> int | None:
    """Return the limit if no other process held memory, the best that waiting can achieve; or
    None."""
    caps = tuple(cap._replace(used_bytes=0) for cap in gpu.caps)
    idle = gpu._replace(free_bytes=gpu.total_bytes, own_bytes=0, leases=(), caps=caps)
    if gpu.share is not None:
        idle = idle._replace(share=gpu.share._replace(outside_bytes=0))
    limit, _ = _limit(idle, rules)
    return gpu.total_bytes if limit is None else limit


def _with_logical_devices(plan: GpuPlan, rules: GpuRules) -> GpuPlan:
    limit = plan.limit_bytes
    sizes = [amount.of(limit) for amount in rules.virtual_devices]
    if None in sizes:
        line = "virtual_devices as a percentage of an unknown limit: ignored"
        return plan._replace(arithmetic=(*plan.arithmetic, line))
    whole = tuple((size or 0) // MIB * MIB for size in sizes)
    total = sum(whole)
    sum_shown = f"{' + '.join(str(size // MIB) for size in whole)} = {_mib(total)}"
    fits = limit is None or total <= limit
    against = "" if limit is None else f" {'≤' if fits else '>'} {_mib(limit)} limit"
    plan = plan._replace(
        logical_devices_bytes=whole,
        arithmetic=(*plan.arithmetic, f"virtual_devices {sum_shown}{against}"),
    )
    if fits and min(whole) > 0:
        return plan
    short = f"virtual_devices need {sum_shown}{against}" if not fits else "a device would get 0 MiB"
    return plan._replace(
        shortage=plan.shortage or short,
        can_ever_fit=plan.can_ever_fit and _devices_fit_when_idle(plan.gpu, rules),
    )


def _devices_fit_when_idle(gpu: Gpu, rules: GpuRules) -> bool:
    best = _limit_when_idle(gpu, rules)
    if best is None:
        return True
    sizes = [(amount.of(best) or 0) // MIB * MIB for amount in rules.virtual_devices]
    return sum(sizes) <= best and min(sizes) > 0


def _apply_queue(plan: GpuPlan, rules: GpuRules) -> GpuPlan:
    """First come, first served: a later program takes nothing that an earlier one waits for."""
    ahead = plan.gpu.ahead
    if not ahead or not is_leased(plan.gpu, rules.memory):
        return plan
    who = "1 program is" if ahead == 1 else f"{ahead} programs are"
    short = f"{who} waiting ahead of this program"
    return plan._replace(
        shortage=f"{plan.shortage}; {short}" if plan.shortage else short,
        is_behind=plan.shortage is None,
    )


def with_lease(plan: GpuPlan, rules: GpuRules) -> GpuPlan:
    limit, context = plan.limit_bytes, context_bytes(plan.gpu, rules.memory)
    is_known = plan.gpu.free_bytes is not None and has_limit(rules)
    if limit is None or context is None or not is_known or not is_leased(plan.gpu, rules.memory):
        return plan
    wanted, _ = _least_free(plan.gpu, rules)
    amount = None if plan.gpu.share else rules.memory.reserve  # a scheduler's share is kept whole
    reserve = None if amount is None else amount.of(plan.gpu.total_bytes)
    reserved = limit if reserve is None else min(limit, reserve)
    lease = rules.processes * (reserved + context)
    name = "limit" if reserved == limit else "reserve"
    each = f"{_mib(reserved)} {name} + {_mib(context)} context"
    each = f"{rules.processes} × ({each})" if rules.processes > 1 else each
    line = f"lease = {each} = {_mib(lease)}"
    # Without growth TensorFlow and JAX take the whole limit anyway.
    has_more = plan.allow_growth and reserved < limit
    is_preallocated = has_more and rules.memory.hold is not False
    return plan._replace(
        lease_bytes=lease,
        most_bytes=rules.processes * (limit + context),
        preallocated_bytes=reserved if is_preallocated else 0,
        least_free_bytes=wanted,
        arithmetic=plan.arithmetic if plan.shortage else (*plan.arithmetic, line),
    )


def _mib(size_bytes: int) -> str:
    """Round down, like the limit, so that the figures are consistent with it."""
    return sized(size_bytes, cut=True)
