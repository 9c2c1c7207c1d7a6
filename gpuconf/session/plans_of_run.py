"""Plans for a program started by `gpuconf run`, made from the run's figures.

They take no leases: the run holds leases for all its processes, and each process takes one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpuconf.errors import ShortageError
from gpuconf.injected.places import NoPlaceError, leave_places, take_places
from gpuconf.planner import Plan
from gpuconf.profile import Profile
from gpuconf.session.plan_maker import Made, Making, PlanMaker
from gpuconf.session.run_variable import RunPlan


class CarriedPlans(PlanMaker):
    """Makes the plans of ``run`` in this process.  ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float], run: RunPlan) -> None:
        super().__init__(clock)
        self._run = run

    def make(self, profile: Profile, chosen: Mapping[str, str], *, waiting: bool) -> Made:  # noqa: ARG002  # nothing to wait for
        """Make the run's plan, limited to the GPUs that CUDA's variables in ``chosen`` show."""
        making = Making(profile, chosen, self._clock)
        return self._made(making)

    def use(self, uuids: Sequence[str]) -> None:
        """Take a place on each of these GPUs.

        Raises ShortageError if the run's other processes have taken all the places.
        """
        names = {gpu.uuid: f"GPU {gpu.index}" for gpu in self._run.inventory.gpus if gpu.uuid}
        try:
            take_places(self._run.leases, self._run.profile.processes, uuids, names)
        except NoPlaceError as error:
            message, _, hint = str(error).partition("\n  hint: ")
            raise ShortageError(message, hint=hint or None, shortage=message) from None

    def release(self) -> None:
        """Give this process's places back."""
        leave_places()

    def wants_leases(self, profile: Profile, plan: Plan | None) -> bool:  # noqa: ARG002  # part of the PlanMaker interface
        """Always False: the run holds leases for all its processes."""
        return False

    def _made(self, making: Making) -> Made:
        plan = making.plan(lambda: self._run.inventory)
        notes = tuple(note for note in plan.notes if note not in self._run.notes)
        return Made(plan._replace(notes=notes), making.planned_at)
