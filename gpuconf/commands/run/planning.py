"""The plan of a run: made and leased by the process that then execs the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuconf.basics.setting import Setting
from gpuconf.basics.units import MIB, sized
from gpuconf.machine.cards import Inventory
from gpuconf.machine.policy import with_policy
from gpuconf.planner import GpuPlan, Plan, wants_leases
from gpuconf.profile import Profile, choice_of
from gpuconf.session.environment import OwnEnvironment, environment_for
from gpuconf.session.leasing import OwnLeases
from gpuconf.session.plans import plan_within, reader_for
from gpuconf.session.waiting import wait_for_plan


class Planned(NamedTuple):
    """A plan, the inventory that it was made from, and the lease of each GPU by UUID."""

    plan: Plan
    inventory: Inventory
    leases: dict[str, str]


def plan_run(profile: Profile, program: str) -> Planned:
    """Make the plan of ``profile`` for this process, take its leases, and wait if it says to.

    Other users see ``program`` as the holder.  Raises any planning errors.
    """
    inventories: list[Inventory] = []

    def make(read: Callable[[], Inventory] | None = None) -> Plan:
        inventories.append(with_policy((read or reader_for(profile))()))
        return plan_within(profile, read=lambda: inventories[-1])

    if not wants_leases(profile):
        plan = wait_for_plan(make)
        return Planned(plan, inventories[-1], {})
    own = OwnLeases(program=program)
    plan = own.plan(make, profile=profile.name)
    uuids = [gpu.gpu.uuid for gpu in plan.gpus if gpu.gpu.uuid]
    files = {uuid: own.file_of(uuid) for uuid in uuids}
    return Planned(plan, inventories[-1], {uuid: file for uuid, file in files.items() if file})


def set_environment(plan: Plan) -> list[Setting]:
    """Set the variables of ``plan`` in this process's environment; return the result for each."""
    changes, settings = environment_for(plan.profile, plan)
    uuids = tuple(gpu.gpu.uuid for gpu in plan.gpus if gpu.gpu.uuid)
    OwnEnvironment().write(changes, choice_of(plan.profile), uuids)
    return settings


def decision(plan: Plan, program: str, *, is_leased: bool = True) -> str:
    """Describe the decision in one line; ``is_leased`` is False if leases could not be taken."""
    name = plan.profile.name
    if plan.hides_gpus:
        return f"{program}: no GPU (profile {name})"
    if not plan.gpus:
        limit = plan.unknown_gpu and plan.unknown_gpu.limit_bytes
        share = plan.unknown_gpu and plan.unknown_gpu.unsized_fraction
        if limit or share:
            size = sized(limit) if limit else f"{share:g} of the total"
            return f"{program}: limit {size} on each GPU (profile {name})"
        return f"warning: {program} has no GPU memory limit (profile {name})"
    allowed = ", ".join(_allowed(gpu, plan.profile.processes) for gpu in plan.gpus)
    leased = sum(gpu.lease_bytes or 0 for gpu in plan.gpus)
    lease = f"; {sized(leased)} reserved including the CUDA context" if leased and is_leased else ""
    return f"{program}: {allowed} (profile {name}){lease}{_cut(plan)}"


def _cut(plan: Plan) -> str:
    """Return a remark if the limit is below the requested ``memory_limit``."""
    asked = plan.profile.memory.memory_limit
    sizes = [(asked.of(each.gpu.total_bytes), each.limit_bytes) for each in plan.gpus if asked]
    if any(size is not None and limit is not None and limit // MIB < size // MIB
           for size, limit in sizes):  # fmt: skip
        return f" (memory_limit {asked} is more than its other rules allow: see gpuconf plan)"
    return ""


def _allowed(plan: GpuPlan, processes: int) -> str:
    gpu = f"GPU {plan.gpu.index}"
    if plan.limit_bytes is None:
        return f"no limit on {gpu}"
    size = sized(plan.limit_bytes, cut=True)
    size = size if processes == 1 else f"{size} for each of {processes} processes"
    return f"limit {size} on {gpu}"
