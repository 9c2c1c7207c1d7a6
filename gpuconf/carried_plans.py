"""The plans of a program that `gpuconf run` has started: made from the run's figures.

It leases nothing: the run has leased for all of its processes, and each takes one of its places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuconf.carried.places import NoPlaceError, leave_places, take_places
from gpuconf.errors import ShortageError
from gpuconf.plan_maker import Made, Making, PlanMaker

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.planner import Plan
    from gpuconf.profile import Profile
    from gpuconf.run_plan import RunPlan


class CarriedPlans(PlanMaker):
    """Makes the plans of ``run`` in this process.  ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float], run: RunPlan) -> None:
        super().__init__(clock)
        self._run = run

    def make(self, profile: Profile, chosen: Mapping[str, str], *, waiting: bool) -> Made:  # noqa: ARG002  # nothing is waited for
        """The plan of the run, on no other GPUs than CUDA's variables in ``chosen`` show."""
        making = Making(profile, chosen, self._clock)
        return self._made(making)

    def lease(
        self,
        profile: Profile,
        chosen: Mapping[str, str],
        bound: Plan | None,
        environ: Mapping[str, str] | None = None,
    ) -> Made:
        """As :meth:`make`, and take a place on each of its GPUs.

        Raises ShortageError where the run's other processes have them all.
        """
        made = self._made(Making(profile, chosen, self._clock, bound, environ))
        uuids = [each.gpu.uuid for each in made.plan.gpus if each.gpu.uuid]
        try:
            take_places(self._run.leases, profile.processes, uuids)
        except NoPlaceError as error:
            message, _, hint = str(error).partition("\n  hint: ")
            raise ShortageError(message, hint=hint or None, shortage=message) from None
        return made

    def release(self) -> None:
        """Give this process's places back."""
        leave_places()

    def wants_leases(self, profile: Profile, plan: Plan | None) -> bool:  # noqa: ARG002  # asked of any maker
        """Whether there are places to be taken."""
        return bool(self._run.leases)

    def _made(self, making: Making) -> Made:
        plan = making.plan(lambda: self._run.inventory)
        notes = tuple(note for note in plan.notes if note not in self._run.notes)
        return Made(plan._replace(notes=notes), making.planned_at)
