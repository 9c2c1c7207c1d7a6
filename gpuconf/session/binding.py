"""When plans take effect: one profile per process, planned on demand, bound at device creation.

docs/design.md describes the three steps: `Binding.take`, `prepare` and `bind`. Each step decides
first and then writes. Reading files, querying NVML and waiting for memory change nothing, so an
interrupt there leaves everything as it was; the plan is applied by one short function,
`Binding._put`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from gpuconf.basics.environment import NO_RESERVE_VARIABLE
from gpuconf.basics.processes import is_worker
from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import debug, say
from gpuconf.basics.units import sized
from gpuconf.errors import ShortageError, with_short_tracebacks
from gpuconf.planner import GpuPlan, Plan, wants_leases
from gpuconf.profile import ParentChoice, Profile, choice_of
from gpuconf.session.activation import Activation
from gpuconf.session.environment import PROFILE_VARIABLE, OwnEnvironment, environment_for
from gpuconf.session.plans import is_reassigned, plan_with_lease, plan_within

if TYPE_CHECKING:  # only what initializes GPUs needs leases, and only a run its variable
    from gpuconf.session.leasing import OwnLeases
    from gpuconf.session.run_variable import RunPlan

# Figures older than this are read again when devices are created.  An NVML query takes
# milliseconds, and another program can take little memory within a second compared with the time
# that a framework needs to start.
FRESH_S = 1.0


class _State(NamedTuple):
    """What changes as a process moves through the three steps.

    ``choice`` is the profile as children see it.  ``load`` returns the profile that the program
    requests now, and ``named`` is the GPUCONF_PROFILE that it was loaded with.  ``watched`` holds
    the values of the variables that a plan depends on, after ours were set.  ``planned_at`` is the
    clock time when the figures were read, and ``pid`` is the process that read them.  ``bound_pid``
    is the process that bound the plan, and ``is_leased`` says whether it also holds its leases.
    """

    profile: Profile
    activation: Activation
    choice: ParentChoice
    load: Callable[[], Profile]
    named: str | None = None
    watched: tuple[str | None, ...] = ()
    planned_at: float | None = None
    pid: int = 0
    bound_pid: int | None = None
    is_leased: bool = False

    @property
    def is_bound(self) -> bool:
        """Whether the plan is already bound in this process."""
        return self.bound_pid == os.getpid()


def _state_of(profile: Profile, load: Callable[[], Profile]) -> _State:
    return _State(profile, Activation(profile), choice_of(profile), load)


class Binding:
    """The active profile in this process, and its plan.  ``clock`` is in seconds.

    ``run`` is the `gpuconf run` that this process belongs to. The plans for this process are based
    on the run's figures and take no leases: the run has leases for all its processes, and each
    takes one place.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = RLock()  # a step may lead to another, in the same thread
        self._state: _State | None = None
        self._environment = OwnEnvironment()
        self._leases: OwnLeases | None = None
        self.run: RunPlan | None = None
        self._said: set[str] = set()
        self._reserves: dict[object, str] = {}  # a GPU's identity -> the framework that has it

    @property
    def activation(self) -> Activation | None:
        """The report of the active profile; None if there is none."""
        return None if self._state is None else self._state.activation

    @property
    def profile(self) -> Profile | None:
        """The active profile."""
        return None if self._state is None else self._state.profile

    @property
    def environment(self) -> OwnEnvironment:
        """This process's environment."""
        return self._environment

    @property
    def is_bound(self) -> bool:
        """Whether the plan is already bound in this process and will not be made again."""
        return self._state is not None and self._state.is_bound

    def record(self, setting: Setting) -> None:
        """Add a setting's outcome to the current activation."""
        if self._state is not None:
            self._state.activation.record(setting)

    # --- the three steps ------------------------------------------------------------------------

    def take(
        self,
        profile: Profile,
        load: Callable[[], Profile],
        *,
        then: Callable[[], None],
        undo: Callable[[bool], None],
    ) -> Activation:
        """Apply ``profile``, call ``then``, and return the report.

        If that raises, the previous profile stays active and ``undo(is_first)`` reverts what
        ``then`` did.  ``load`` returns the profile that the program requests at the time of the
        call.
        """
        with self._lock:
            earlier, written = self._state, self._environment.written()
            state = _state_of(profile, load)
            try:
                self._put(state, None)
                if earlier is not None and earlier.activation.plan is not None:
                    with suppress(ShortageError):  # the framework import raises it
                        self._put(state, self._plan(state, waiting=False))
                for note in profile.notes:
                    self._print(note.text)
                then()
                self._release_others(state)
            except BaseException:
                self._environment.take_back_to(written)
                self._state = earlier
                undo(earlier is None)
                raise
            return state.activation

    def prepare(self) -> None:
        """Make the plan if this process and its variables have none yet, and apply all of it.

        Called when a framework import begins.  Raises what planning raises.  In a pool worker a
        shortage is not an error yet: most workers import the program's main module, and with it a
        framework, only to load data.
        """
        with self._lock:
            if self._state is None or self.is_bound:
                return
            state = self._wanted(self._state)
            try:
                if self._is_outdated(state):
                    self._put(state, self._plan(state, waiting=not is_worker()))
                    self._release_others(state)
            except ShortageError:
                if not is_worker():
                    raise

    @with_short_tracebacks
    def bind(self, apply: Callable[[Plan], None], *, only_lists: bool = False) -> None:
        """Put the plan into effect for good, and call ``apply`` with it.

        A framework's backend calls this right before it creates its devices or, with
        ``only_lists``, lists them.  Plans again if the process, variables or profile have changed
        or the figures are stale, following the profile's ``on_shortage``, including its wait.
        Leases are taken only for devices that are created: a launcher lists GPUs and leaves them to
        its workers. Raises whatever planning and ``apply`` raise; the plan then does not take
        effect.
        """
        with self._lock:
            if self._state is None:
                return
            before = self._state.bound_pid
            self._plan_to_bind(self._state, only_lists=only_lists)
            self._release_others(self._state)
            plan = self._state.activation.plan
            self._state = self._state._replace(bound_pid=os.getpid())
            try:
                if plan is not None:
                    apply(plan)
            except BaseException:
                self._state = self._state._replace(bound_pid=before)
                raise
            if plan is not None:
                self._print_limits(plan)
                if any(gpu.limit_bytes for gpu in plan.gpus):
                    from gpuconf.session import refused_memory  # with fcntl, not on Windows

                    refused_memory.watch(plan)

    @with_short_tracebacks
    def use(self, uuids: Sequence[str]) -> None:
        """Count this process on the GPUs that it is about to use, if it belongs to a run.

        Raises ShortageError if the process's `gpuconf run` has no place left for it.
        """
        if self.run is not None:
            with self._lock:
                _take_places(self.run, uuids)

    def release(self) -> None:
        """Release this process's leases, or its place in a run, because it uses no GPU."""
        with self._lock:
            if self.run is not None:
                from gpuconf.injected.places import leave_places  # with fcntl, not on Windows

                leave_places()
            elif self._leases is not None:
                self._leases.release()
                if self._state is not None:
                    self._state = self._state._replace(is_leased=False)

    def claim_reserve(self, gpu: GpuPlan, framework: str, *, again: bool = False) -> bool:
        """Whether ``framework``, as the first in this process, now allocates the reserve of
        ``gpu``.

        The process has one lease, however many frameworks it uses.  With ``again``, the framework
        that has the reserve allocates it again, because it has a new allocator.
        """
        if not gpu.preallocated_bytes or os.environ.get(NO_RESERVE_VARIABLE):
            return False
        owner = self._reserves.get(gpu.gpu.identity)
        if owner is None:
            self._reserves[gpu.gpu.identity] = framework
        return owner is None or (again and owner == framework)

    def after_fork(self) -> None:
        """Reset the state in a forked child, which holds neither leases nor the parent's lock."""
        self._lock = RLock()
        self._reserves = {}
        if self._leases is not None:
            self._leases.after_fork()

    # --- what has changed -----------------------------------------------------------------------

    def _wanted(self, state: _State) -> _State:
        """Return ``state``, or a new one if the program has changed GPUCONF_PROFILE."""
        named = self._environment.named_profile
        if named == state.named:
            return state
        profile = state.load()
        if profile == state.profile:
            return state
        self._print(
            f"{PROFILE_VARIABLE}={named or ''} was set after gpuconf was imported; "
            "using that profile"
        )
        return _state_of(profile, state.load)

    def _is_outdated(self, state: _State) -> bool:
        """Whether there is no plan, or only one for another process or other variables."""
        if state.activation.plan is None or state.pid != os.getpid():
            return True
        changed = self._environment.changed_since(state.activation.environment, state.watched)
        if changed:
            now = ", ".join(f"{name}={value}" for name, value in changed.items())
            say(f"{now} was set after gpuconf was imported; planning again")
        return bool(changed) or is_reassigned(state.profile, state.activation.plan)

    def _is_old(self, state: _State) -> bool:
        does_age = self.run is None and state.profile.gpus.kind != "none"
        if state.planned_at is None or not does_age:
            return False
        return self._clock() - state.planned_at > FRESH_S

    def _is_leasing(self, state: _State, *, only_lists: bool) -> bool:
        """Whether leases are due now and have not been taken."""
        if only_lists or self.run is not None or (state.is_bound and state.is_leased):
            return False
        plan = state.activation.plan  # without NVML's figures there is nothing to lease
        return wants_leases(state.profile) and (plan is None or plan.unknown_gpu is None)

    # --- making the plan, and applying it -----------------------------------------------

    def _plan_to_bind(self, state: _State, *, only_lists: bool) -> None:
        """Make the plan that takes effect, unless the active one is that plan, and take its
        leases."""
        bound = state.activation.plan if state.is_bound else None
        if not state.is_bound:
            state = self._wanted(state)
            is_due = self._is_outdated(state) or self._is_old(state)  # it also reports what changed
            if is_due and not self._is_leasing(state, only_lists=only_lists):
                state = self._put(state, self._plan(state, waiting=True))
        if self._is_leasing(state, only_lists=only_lists):
            plan = self._plan_with_lease(state, bound)
            self._state = self._put(state, plan)._replace(is_leased=True)

    def _plan(self, state: _State, *, waiting: bool) -> Plan:
        """Make the plan; with ``waiting``, wait for memory as the profile says.

        Takes no lease, unless the process has waited, because it would otherwise lose its place.
        """
        # Without GPUs there is no choice to read, and no need to check whether CUDA has started.
        is_free = state.profile.gpus.kind == "none"
        chosen = {} if is_free else self._environment.chosen_before()
        try:
            return plan_within(state.profile, chosen, run=self.run)
        except ShortageError as error:
            if error.wait_s is None or not waiting or self.run is not None:
                raise
        # Outside the handler, so that Ctrl-C does not show the earlier shortage.
        return plan_with_lease(state.profile, chosen, self._own_leases())

    def _plan_with_lease(self, state: _State, bound: Plan | None) -> Plan:
        """Make the plan and take its leases; return the ``bound`` plan if it is still valid.

        Once the GPUs have been listed, CUDA does not read its variables again.
        """
        environ = self._environment.as_cuda_read_it(state.watched) if bound else os.environ
        chosen = self._environment.chosen_before(environ)
        leases = self._own_leases()
        return plan_with_lease(state.profile, chosen, leases, bound=bound, environ=environ)

    def _own_leases(self) -> OwnLeases:
        if self._leases is None:
            from gpuconf.session.leasing import OwnLeases

            self._leases = OwnLeases()
        return self._leases

    def _put(self, state: _State, plan: Plan | None) -> _State:
        """Apply ``state`` with ``plan``, or what needs no figures; return the resulting state."""
        profile = state.profile
        changes, settings = environment_for(profile, plan)
        gpus = tuple(gpu.gpu.uuid for gpu in plan.gpus if gpu.gpu.uuid) if plan else None
        # All is decided; from here on it is written.
        self._environment.write(changes, state.choice, gpus)
        state.activation.put_in_force(plan, changes, settings)
        self._state = state._replace(
            named=self._environment.named_profile,
            watched=self._environment.watched(),
            planned_at=None if plan is None else self._clock(),
            pid=os.getpid(),
            is_leased=False,
        )
        for text in [*(plan.notes if plan else ()), *(str(s) for s in settings if s.why_not)]:
            self._print(text)
        debug(f"profile {profile.name} sets {changes}")
        return self._state

    def _release_others(self, state: _State) -> None:
        """Release the leases of an earlier profile, if this one leases nothing."""
        if self._leases is not None and not wants_leases(state.profile):
            self._leases.release()

    def _print_limits(self, plan: Plan) -> None:
        """Log the limits that apply now, once per process, if debug output is on."""
        for gpu in plan.gpus:
            limit = "none" if gpu.limit_bytes is None else sized(gpu.limit_bytes, cut=True)
            text = f"profile {plan.profile.name}: limit of GPU {gpu.gpu.index}: {limit}"
            if text not in self._said:
                self._said.add(text)
                debug(text)

    def _print(self, text: str) -> None:
        """Print ``text`` once per process; in pool workers, only log it for debugging."""
        if text not in self._said:
            self._said.add(text)
            (debug if is_worker() else say)(text)


def _take_places(run: RunPlan, uuids: Sequence[str]) -> None:
    """Take a place on each of these GPUs of ``run``; raise ShortageError if all are taken."""
    from gpuconf.injected.places import NoPlaceError, take_places  # with fcntl, not on Windows

    names = {gpu.uuid: f"GPU {gpu.index}" for gpu in run.inventory.gpus if gpu.uuid}
    try:
        take_places(run.leases, run.profile.processes, uuids, names)
    except NoPlaceError as error:
        message, _, hint = str(error).partition("\n  hint: ")
        raise ShortageError(message, hint=hint or None, shortage=message) from None
