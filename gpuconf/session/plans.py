"""Plans on this machine now: without a lease or with one, and for a program in a run.

Nothing is changed here except that a plan with a lease takes it; see
:mod:`gpuconf.session.binding` for when a plan is made and applied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gpuconf.basics import environment
from gpuconf.errors import ShortageError
from gpuconf.machine.cards import Inventory, read_inventory
from gpuconf.machine.schedulers import assigned_share, assignment_of, with_share
from gpuconf.planner import Plan, is_within, wants_leases
from gpuconf.planner.plan import hidden_plan
from gpuconf.planner.shortage_alternatives import suggest_alternative
from gpuconf.profile import Profile
from gpuconf.session.waiting import wait_for_plan

if TYPE_CHECKING:  # only what initializes GPUs needs leases, and only a run its variable
    from gpuconf.session.leasing import OwnLeases
    from gpuconf.session.run_variable import RunPlan


def plan_within(
    profile: Profile,
    chosen: Mapping[str, str] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    read: Callable[[], Inventory] | None = None,
    run: RunPlan | None = None,
) -> Plan:
    """Make the plan for ``profile`` on this machine now.  Raises as make_plan does.

    It is limited to the GPUs that CUDA's variables in ``chosen`` show, by default those that
    gpuconf has set. ``read`` returns the machine's GPUs; by default it queries NVML. In a ``run``,
    the figures are the run's, and notes that the run has already printed are left out.
    """
    if profile.gpus.kind == "none":  # nobody is asked
        return hidden_plan(profile)
    from gpuconf.planner.planning import make_plan  # `import gpuconf.auto` makes no plan

    chosen = environment.set_by_gpuconf(environ) if chosen is None else chosen
    if run is not None:
        made = plan_within(profile, chosen, environ=environ, read=lambda: run.inventory)
        return made._replace(notes=tuple(note for note in made.notes if note not in run.notes))
    baseline = environment.before_gpuconf(environ)
    cards = (read or reader_for(profile))()

    def make(candidate: Profile) -> Plan:
        return make_plan(
            candidate,
            _figures(candidate, baseline, cards),
            environ=baseline,
            chosen_by_parent=chosen.get("CUDA_VISIBLE_DEVICES"),
            order_by_parent=chosen.get("CUDA_DEVICE_ORDER"),
        )

    try:
        return make(profile)
    except ShortageError as error:
        if error.wait_s is None:  # otherwise the program waits for the profile's own amount
            ways = [suggest_alternative(profile, make, environ), error.hint]
            error.hint = "\n        or ".join(filter(None, ways))
        raise


def plan_with_lease(
    profile: Profile,
    chosen: Mapping[str, str],
    leases: OwnLeases,
    *,
    bound: Plan | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Plan:
    """Like :func:`plan_within`, but wait as the profile says, and take the leases that it requests.

    ``bound`` is a plan that a framework already has; it is returned if it is still valid.
    """

    def make(read: Callable[[], Inventory] | None = None) -> Plan:
        try:
            made = plan_within(profile, chosen, environ=environ, read=read)
        except ShortageError as error:
            if bound is not None:  # its framework can use no other GPU, so it queues for no other
                of_bound = {each.gpu.uuid for each in bound.gpus}
                error.wanted = {k: size for k, size in error.wanted.items() if k in of_bound}
            raise
        return bound if bound is not None and is_within(bound, made) else made

    return leases.plan(make, profile=profile.name) if wants_leases(profile) else wait_for_plan(make)


def is_reassigned(profile: Profile, plan: Plan) -> bool:
    """Whether Ray has assigned a different share of the GPUs since ``plan`` was made."""
    if profile.memory.share != "ray":
        return False
    assigned = assigned_share(profile, os.environ)
    return assigned is not None and assigned.words != assignment_of(each.gpu for each in plan.gpus)


def reader_for(profile: Profile) -> Callable[[], Inventory]:
    """Return a function that reads the figures that ``profile`` needs, including any leases."""
    from gpuconf.machine.policy import POLICY_PATH

    if not wants_leases(profile) and not os.path.lexists(POLICY_PATH):
        return read_inventory
    from gpuconf.machine.leases.reading import read_with_leases

    return read_with_leases


def _figures(profile: Profile, baseline: Mapping[str, str], inventory: Inventory) -> Inventory:
    """Return the machine's GPUs, with this process's own memory, its share, and its user's
    quota."""
    from gpuconf.machine.policy import with_policy

    assigned = assigned_share(profile, baseline)
    own = inventory.mapped(lambda gpu: gpu.with_own_bytes(os.getpid()))
    return with_share(with_policy(own), assigned)
