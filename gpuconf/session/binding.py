"""When a plan binds: one profile per process, planned on demand, bound when devices are created.

There are three steps, each later and more certain than the previous one:

1. :meth:`Binding.take`, at ``import gpuconf.auto``: sets what needs no measurements, without NVML.
2. :meth:`Binding.prepare`, when a framework's import starts: makes the plan and sets the rest of
   the environment, so that CUDA and child processes see it.
3. :meth:`Binding.bind`, when a framework lists or creates its devices: sets the final limit.  The
   plan is made again if the card, the process or the variables have changed since.

This process never plans again after that: its own memory would count as another program's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import debug, say
from gpuconf.basics.units import sized
from gpuconf.basics.worker_process import is_worker
from gpuconf.errors import ShortageError
from gpuconf.planner import Plan
from gpuconf.profile import ParentChoice, Profile, choice_of
from gpuconf.session.activation import Activation, Contents
from gpuconf.session.all_or_nothing import AllOrNothing
from gpuconf.session.own_environment import PROFILE_VARIABLE, OwnEnvironment, Written
from gpuconf.session.plan_here import environment_for
from gpuconf.session.plan_maker import Made, PlanMaker

# Figures older than this are read again when devices are created.  An NVML query takes
# milliseconds, and another program can take little memory within a second compared with the time
# that a framework needs to start.
FRESH_S = 1.0


class _State(NamedTuple):
    """What changes as a process moves through the three steps.

    ``choice`` is the profile as children see it.  ``load`` returns the profile that the program
    asks for now, and ``named`` is the GPUCONF_PROFILE that it was loaded with.  ``watched`` holds
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


class _Snapshot(NamedTuple):
    """Everything an operation may change, as it was before."""

    state: _State | None
    contents: Contents | None
    written: Written
    leases: list[object]
    said: frozenset[str]


class Binding:
    """The profile in force in this process, and its plan.

    Each operation either completes or restores the environment, the activation and itself, whatever
    exception it raises, including KeyboardInterrupt.  ``clock`` is in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state: _State | None = None
        self._environment = OwnEnvironment()
        self._maker = PlanMaker(clock)
        self._said: frozenset[str] = frozenset()
        self._whole = AllOrNothing(self._snapshot, self._maker.settle)

    def plan_with(self, maker: PlanMaker) -> None:
        """Use ``maker`` for this process's plans; call this before any profile is in force."""
        self._maker = maker
        self._whole = AllOrNothing(self._snapshot, maker.settle)

    @property
    def activation(self) -> Activation | None:
        """The report of the profile in force; None if there is none."""
        return None if self._state is None else self._state.activation

    @property
    def profile(self) -> Profile | None:
        """The profile in force."""
        return None if self._state is None else self._state.profile

    @property
    def environment(self) -> OwnEnvironment:
        """This process's environment."""
        return self._environment

    @property
    def is_bound(self) -> bool:
        """Whether the plan is already bound in this process and will not be made again."""
        return self._state is not None and self._state.bound_pid == os.getpid()

    def record(self, setting: Setting) -> None:
        """Add a setting's outcome to the activation in force."""
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
        """Put ``profile`` in force, call ``then``, and return the report.

        If that raises, the previous profile stays in force and ``undo(is_first)`` reverts what
        ``then`` did.  ``load`` returns the profile that the program asks for at the time of the
        call.
        """

        def operation() -> Activation:
            is_first = self._state is None
            try:
                return self._take(profile, load, then)
            except BaseException:
                undo(is_first)
                raise

        return self._whole.run(operation)

    def prepare(self) -> None:
        """Make the plan if this process and its variables have none yet, and set all of it.

        Called when a framework import begins.  Raises what planning raises.  In a pool worker a
        shortage is not an error yet: most workers import the program's main module, and with it a
        framework, only to load data.
        """
        try:
            self._whole.run(self._prepare)
        except ShortageError:
            if not is_worker():
                raise

    def bind(self, apply: Callable[[Plan], None], *, only_lists: bool = False) -> None:
        """Put the plan in effect for good, and call ``apply`` with it.

        A framework's backend calls this right before it creates its devices or, with
        ``only_lists``, lists them.  Plans again if the process, variables or profile have changed
        or the figures are stale, following the profile's ``on_shortage``, including its wait.
        Leases are taken only for devices that are created: a launcher lists GPUs and leaves them to
        its workers.  Raises what planning and ``apply`` raise.
        """
        self._whole.run(lambda: self._bind(apply, only_lists=only_lists))

    def use(self, uuids: Sequence[str]) -> None:
        """Count this process on the GPUs that it is about to use.

        Raises ShortageError if its `gpuconf run` has no place left for it.
        """
        self._whole.run(lambda: self._maker.use(uuids))

    def release(self) -> None:
        """Release this process's leases, because it uses no GPU."""
        self._whole.run(self._maker.release)

    def after_fork(self) -> None:
        """Reset the state in a forked child, which holds no leases and not the parent's lock."""
        self._whole.after_fork()
        self._maker.after_fork()

    def _take(
        self, profile: Profile, load: Callable[[], Profile], then: Callable[[], None]
    ) -> Activation:
        earlier, self._state = (
            self._state,
            _State(profile, Activation(profile), choice_of(profile), load),
        )
        self._set_environment(None)
        if earlier is not None and earlier.activation.plan is not None:
            try:  # noqa: SIM105  # contextlib costs the import more than these lines
                self._plan(waiting=False)
            except ShortageError:  # the framework import raises it
                pass
        for note in profile.notes:
            self._print(note.text)
        then()
        return self._state.activation

    def _prepare(self) -> None:
        if self._state is None or self.is_bound:
            return
        self._follow_profile()
        if self._is_outdated():
            self._plan(waiting=not is_worker())

    def _bind(self, apply: Callable[[Plan], None], *, only_lists: bool) -> None:
        if self._state is None:
            return
        bound = self._state.activation.plan if self.is_bound else None
        if not self.is_bound:
            self._follow_profile()
            is_due = self._is_outdated() or self._is_old()  # it also reports what changed
            if is_due and not self._is_leasing(only_lists=only_lists):
                self._plan(waiting=True)
        if self._is_leasing(only_lists=only_lists):
            self._lease(bound)
        self._state = self._state._replace(bound_pid=os.getpid())
        plan = self._state.activation.plan
        if plan is not None:
            apply(plan)
            self._print_limits(plan)

    # --- what has changed -----------------------------------------------------------------------

    def _is_outdated(self) -> bool:
        """Whether there is no plan, or only one for another process or other variables."""
        state = self._state
        if state is None or state.activation.plan is None or state.pid != os.getpid():
            return True
        changed = self._environment.changed_since(state.activation.environment, state.watched)
        if changed:
            now = ", ".join(f"{name}={value}" for name, value in changed.items())
            say(f"{now} was set after gpuconf; planning again")
        return bool(changed) or self._maker.is_reassigned(state.profile, state.activation.plan)

    def _is_old(self) -> bool:
        state = self._state
        if state is None or state.planned_at is None or state.profile.gpus.kind == "none":
            return False
        return self._clock() - state.planned_at > FRESH_S

    def _follow_profile(self) -> None:
        """Switch to the profile that the program wants now, if it has changed GPUCONF_PROFILE."""
        state = self._state
        named = self._environment.named_profile
        if state is None or named == state.named:
            return
        profile = state.load()
        if profile != state.profile:
            now = f"{PROFILE_VARIABLE}={named or ''}"
            say(f"{now} was set after gpuconf; using that profile")
            self._state = _State(profile, Activation(profile), choice_of(profile), state.load)

    # --- making and applying the plan -----------------------------------------------------------

    def _plan(self, *, waiting: bool) -> None:
        """Plan for the profile in force, and set the environment."""
        assert self._state is not None
        profile = self._state.profile
        # Without GPUs there is no choice to read, and no need to check whether CUDA has started.
        chosen = {} if profile.gpus.kind == "none" else self._environment.chosen_before()
        self._put(self._maker.make(profile, chosen, waiting=waiting))

    def _lease(self, bound: Plan | None) -> None:
        """Like :meth:`_plan`, and take the leases; keep the ``bound`` plan if it still holds.

        Once the GPUs have been listed, CUDA does not read its variables again.
        """
        assert self._state is not None
        environ = self._environment.as_cuda_read_it(self._state.watched) if bound else None
        chosen = self._environment.chosen_before(environ)
        self._put(self._maker.lease(self._state.profile, chosen, bound, environ))
        self._state = self._state._replace(is_leased=True)

    def _is_leasing(self, *, only_lists: bool) -> bool:
        """Whether leases are due now and have not been taken."""
        state = self._state
        if state is None or only_lists or (self.is_bound and state.is_leased):
            return False
        return self._maker.wants_leases(state.profile, state.activation.plan)

    def _put(self, made: Made) -> None:
        assert self._state is not None
        self._state = self._state._replace(
            planned_at=made.planned_at, pid=os.getpid(), is_leased=False
        )
        self._set_environment(made.plan)

    def _set_environment(self, plan: Plan | None) -> None:
        """Set what ``plan`` asks for, or what needs no figures if it is None; report any
        differences.
        """
        assert self._state is not None
        profile = self._state.profile
        changes, settings = environment_for(profile, plan)
        gpus = tuple(gpu.gpu.uuid for gpu in plan.gpus if gpu.gpu.uuid) if plan else None
        self._environment.write(changes, self._state.choice, gpus)
        self._state.activation.put_in_force(plan, changes, settings)
        self._state = self._state._replace(
            named=self._environment.named_profile, watched=self._environment.watched()
        )
        for text in [*(plan.notes if plan else ()), *(str(s) for s in settings if s.why_not)]:
            self._print(text)
        debug(f"profile {profile.name} sets {changes}")

    def _print_limits(self, plan: Plan) -> None:
        """Log the limits now in force, once per process, if debug output is on."""
        for gpu in plan.gpus:
            limit = "none" if gpu.limit_bytes is None else sized(gpu.limit_bytes, cut=True)
            text = f"profile {plan.profile.name}: limit of GPU {gpu.gpu.index}: {limit}"
            if text not in self._said:
                self._said |= {text}
                debug(text)

    def _print(self, text: str) -> None:
        """Print ``text`` once per process; in a pool's workers, only log it for debugging."""
        if text not in self._said:
            self._said |= {text}
            (debug if is_worker() else say)(text)

    # --- restoring the state --------------------------------------------------------------------

    def _snapshot(self) -> Callable[[], None]:
        state = self._state
        contents = None if state is None else state.activation.contents()
        written, leases = self._environment.written(), self._maker.snapshot()
        before = _Snapshot(state, contents, written, leases, self._said)
        return lambda: self._restore(before)

    def _restore(self, before: _Snapshot) -> None:
        self._environment.take_back_to(before.written)
        is_whole = self._maker.take_back_to(before.leases)
        self._state, self._said = before.state, before.said
        if self._state is not None and not is_whole:
            self._state = self._state._replace(is_leased=False)
        if before.state is not None and before.contents is not None:
            before.state.activation.restore(before.contents)
