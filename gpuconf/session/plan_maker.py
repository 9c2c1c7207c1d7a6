"""This process's plans: made without leases until devices are created, with leases after that.

The planner and the leases are imported only when a plan is made; `import gpuconf.auto` makes none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuconf.errors import ShortageError
from gpuconf.machine.cards import Inventory
from gpuconf.planner import Plan
from gpuconf.profile import Profile
from gpuconf.session.plan_here import plan_within, wait_for_plan

if TYPE_CHECKING:  # only a plan with leases needs it
    from gpuconf.session.leasing import OwnLeases


class Made(NamedTuple):
    """A plan, and the clock time when its figures were read."""

    plan: Plan
    planned_at: float


class PlanMaker:
    """Makes plans for this process and holds its leases.  ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._leases: OwnLeases | None = None

    def make(self, profile: Profile, chosen: Mapping[str, str], *, waiting: bool) -> Made:
        """Make a plan for ``profile``, limited to the GPUs that CUDA's variables in ``chosen``
        show.

        Takes no lease, unless the process has waited: it would lose its place otherwise.  Raises
        what planning raises.
        """
        making = Making(profile, chosen, self._clock)
        plan = None
        try:
            plan = making.plan()
        except ShortageError as error:
            if error.wait_s is None or not waiting:
                raise
        if plan is None:  # outside the handler, so that Ctrl-C does not show the earlier shortage
            plan = self._waited(making, profile)
        if self._leases is not None and not _wants_leases(profile):
            self._leases.supersede()  # leases of another profile
        return Made(plan, making.planned_at)

    def _waited(self, making: Making, profile: Profile) -> Plan:
        if _wants_leases(profile):
            return self._own_leases().plan(making.plan, profile=profile.name)
        return wait_for_plan(making.plan)

    def lease(
        self,
        profile: Profile,
        chosen: Mapping[str, str],
        bound: Plan | None,
        environ: Mapping[str, str] | None = None,
    ) -> Made:
        """Return the plan whose leases this process holds from now on; wait as the profile says.

        ``bound`` is a plan that a framework already has; it is kept if it still holds.  ``environ``
        is by default this process's environment.
        """
        making = Making(profile, chosen, self._clock, bound, environ)
        if not _wants_leases(profile):
            return Made(wait_for_plan(making.plan), making.planned_at)
        plan = self._own_leases().plan(making.plan, profile=profile.name)
        return Made(plan, making.planned_at)

    def wants_leases(self, profile: Profile, plan: Plan | None) -> bool:
        """Whether there may be something to lease; False if NVML could not be queried."""
        return _wants_leases(profile) and (plan is None or plan.unknown_gpu is None)

    def is_reassigned(self, profile: Profile, plan: Plan) -> bool:
        """Whether Ray has assigned a different share of the GPUs since ``plan`` was made."""
        if profile.memory.share != "ray":
            return False
        from gpuconf.machine.schedulers import assigned_share, assignment_of

        assigned = assigned_share(profile, os.environ)
        planned = assignment_of(each.gpu for each in plan.gpus)
        return assigned is not None and assigned.words != planned

    def use(self, uuids: Sequence[str]) -> None:
        """Do nothing: this process is about to use these GPUs, and its leases cover them."""

    def release(self) -> None:
        """Mark all leases for release by :meth:`settle`."""
        if self._leases is not None:
            self._leases.supersede()

    def snapshot(self) -> list[object]:
        """Return the leases held now, for :meth:`take_back_to`."""
        return [] if self._leases is None else self._leases.snapshot()

    def take_back_to(self, held: list[object]) -> bool:
        """Release the leases taken since; return whether all of ``held`` still exist.

        Only an interrupt within :meth:`settle` can have released some.
        """
        return self._leases is None or self._leases.take_back_to(held)

    def settle(self) -> None:
        """Release the leases that others have replaced, after the operation has succeeded."""
        if self._leases is not None:
            self._leases.settle()

    def after_fork(self) -> None:
        """Reset the state in a forked child, which holds no lease."""
        if self._leases is not None:
            self._leases.after_fork()

    def _own_leases(self) -> OwnLeases:
        if self._leases is None:
            from gpuconf.session.leasing import OwnLeases

            self._leases = OwnLeases()
        return self._leases


class Making:
    """A plan being made, possibly in several attempts; ``planned_at`` is the last one's time."""

    def __init__(
        self,
        profile: Profile,
        chosen: Mapping[str, str],
        clock: Callable[[], float],
        bound: Plan | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._profile = profile
        self._chosen = chosen
        self._clock = clock
        self._bound = bound
        self._environ = os.environ if environ is None else environ
        self.planned_at = 0.0

    def plan(self, read: Callable[[], Inventory] | None = None) -> Plan:
        """Make a plan now; return the bound plan instead if it is within it."""
        self.planned_at = self._clock()
        made = plan_within(self._profile, self._chosen, environ=self._environ, read=read)
        if self._bound is None:
            return made
        from gpuconf.planner import is_within

        return self._bound if is_within(self._bound, made) else made


def _wants_leases(profile: Profile) -> bool:
    from gpuconf.planner import wants_leases

    return wants_leases(profile)
