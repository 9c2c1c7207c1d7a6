"""When the plan binds: one profile in one process, planned when needed, bound with the devices.

Three moments, each later and more certain than the one before:

1. :meth:`Binding.take`, at ``import gpuconf.auto``: what needs no figures is set, without NVML.
2. :meth:`Binding.prepare`, when a framework's import or another program's start begins: the plan
   is made, and the rest of the environment set, so that CUDA and children find it there.
3. :meth:`Binding.bind`, when a framework lists or makes its devices: the limit that counts.  Card,
   process and variables may have changed since; then the plan is made anew.

After that nothing is planned again in this process: its own memory would count as somebody else's.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from gpuconf.errors import GpuconfError, ShortageError
from gpuconf.machine_plan import environment_for, plan_within, wait_for_plan
from gpuconf.own_environment import PROFILE_VARIABLE, OwnEnvironment, Written
from gpuconf.profile import choice_of
from gpuconf.report import Activation, Contents
from gpuconf.terminal import debug, say

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.planner import Plan
    from gpuconf.profile import ParentChoice, Profile
    from gpuconf.settings import Setting

# Figures older than this are read anew when devices are made.  To ask NVML takes milliseconds; what
# another program can take of a card within a second is little beside a framework's start.
FRESH_S = 1.0
_T = TypeVar("_T")


class _State(NamedTuple):
    """What changes as a process goes from one moment to the next.

    ``choice`` is the profile as children are told of it, ``load`` gives the one that the program
    asks for now, and ``named`` is the GPUCONF_PROFILE it was loaded with.  ``visibility`` is what
    CUDA's variables were after ours were set.  ``planned_at`` is the clock when the figures were
    read, ``pid`` the process that did, ``bound_pid`` the one that bound.
    """

    profile: Profile
    activation: Activation
    choice: ParentChoice
    load: Callable[[], Profile]
    named: str | None = None
    visibility: tuple[str | None, ...] = (None, None)
    planned_at: float | None = None
    pid: int = 0
    bound_pid: int | None = None


class _Snapshot(NamedTuple):
    """All that an operation may change, as it was before."""

    state: _State | None
    contents: Contents | None
    written: Written
    said: frozenset[str]


class Binding:
    """The profile in force in this process, and its plan.

    Each operation does all it says, or leaves environment, activation and itself as they were,
    whatever is raised in it, KeyboardInterrupt too.  ``clock`` is in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state: _State | None = None
        self._environment = OwnEnvironment()
        self._said: frozenset[str] = frozenset()
        self._is_planning = False
        self._refused_until = float("-inf")
        self._lock = threading.RLock()

    @property
    def activation(self) -> Activation | None:
        """The report of what is in force; None if nothing is."""
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
        """Whether the plan holds in this process already, and is not made again."""
        return self._state is not None and self._state.bound_pid == os.getpid()

    def record(self, setting: Setting) -> None:
        """Add a setting's fate to the activation in force."""
        if self._state is not None:
            self._state.activation.record(setting)

    # --- the three moments ----------------------------------------------------------------------

    def take(
        self, profile: Profile, load: Callable[[], Profile], then: Callable[[], None]
    ) -> Activation:
        """Put ``profile`` in force, call ``then``, and return the report.

        What was in force before stays so if that raises.  ``load`` gives the profile that the
        program asks for at the time of the call.
        """
        return self._whole(lambda: self._take(profile, load, then))

    def prepare(self) -> None:
        """Make the plan if there is none for this process and its variables, and set all of it.

        Called when a framework's import begins.  Raises what planning raises.  In a worker of a
        pool a shortage is none yet: most workers import the program's main module, and with it a
        framework, only to load data.
        """
        try:
            self._whole(self._prepare)
        except ShortageError:
            if not is_worker():
                raise

    def prepare_for_program(self) -> None:
        """As :meth:`prepare`, when another program is about to start; never stops it.

        Its environment is what a child always found.  Where this or another thread is planning, the
        program goes without.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            state = self._state
            if self._is_planning or state is None:
                return
            self._environment.name_profile_absolutely()
            if state.planned_at is not None or self._clock() < self._refused_until:
                return
            self._whole(lambda: self._plan(waiting=False))
        except GpuconfError as error:
            self._refused_until = self._clock() + FRESH_S  # a build may start a thousand programs
            self._tell(f"programs started from here find no limit set: {error.message}")
        finally:
            self._lock.release()

    def bind(self, apply: Callable[[Plan], None]) -> None:
        """Make the plan hold from now on, and call ``apply`` with it.

        Called by a framework's backend right before its devices are listed or made.  Plans again
        if process, variables or profile have changed, or the figures are old, with the profile's
        ``on_shortage``, waiting included.  Raises what planning and ``apply`` raise.
        """
        self._whole(lambda: self._bind(apply))

    def after_fork(self) -> None:
        """In a forked child: a thread that is not in the child may have held the lock."""
        self._lock, self._is_planning = threading.RLock(), False

    def _take(
        self, profile: Profile, load: Callable[[], Profile], then: Callable[[], None]
    ) -> Activation:
        self._state = _State(profile, Activation(profile), choice_of(profile), load)
        if profile.gpus.kind == "none":  # nobody need be asked
            self._plan(waiting=False)
        else:
            self._set_environment(None)
        for note in profile.notes:
            self._tell(note)
        then()
        return self._state.activation

    def _prepare(self) -> None:
        if self._state is None or self.is_bound:
            return
        self._follow_profile()
        if self._is_outdated():
            self._plan(waiting=not is_worker())

    def _bind(self, apply: Callable[[Plan], None]) -> None:
        if self._state is None:
            return
        if not self.is_bound:
            self._follow_profile()
            if self._is_outdated() or self._is_old():
                self._plan(waiting=True)
            self._state = self._state._replace(bound_pid=os.getpid())
        plan = self._state.activation.plan
        if plan is not None:
            apply(plan)

    # --- what has changed -----------------------------------------------------------------------

    def _is_outdated(self) -> bool:
        """Whether there is no plan, or one for another process or other variables."""
        state = self._state
        if state is None or state.planned_at is None or state.pid != os.getpid():
            return True
        changed = self._environment.changed_since(state.activation.environment, state.visibility)
        if changed:
            now = ", ".join(f"{name}={value}" for name, value in changed.items())
            say(f"the script has set {now} after gpuconf; planning again with that")
        return bool(changed)

    def _is_old(self) -> bool:
        state = self._state
        if state is None or state.planned_at is None or state.profile.gpus.kind == "none":
            return False
        return self._clock() - state.planned_at > FRESH_S

    def _follow_profile(self) -> None:
        """Where the program has set GPUCONF_PROFILE since, take the profile that it wants now."""
        state = self._state
        named = self._environment.named_profile
        if state is None or named == state.named:
            return
        profile = state.load()
        if profile != state.profile:
            now = f"{PROFILE_VARIABLE}={named or ''}"
            say(f"the script has set {now} after gpuconf; that profile holds now")
            self._state = _State(profile, Activation(profile), choice_of(profile), state.load)

    # --- making the plan and setting it ---------------------------------------------------------

    def _plan(self, *, waiting: bool) -> None:
        """Plan for the profile in force now, and set the environment."""
        assert self._state is not None
        profile, chosen = self._state.profile, self._environment.chosen_before()
        planned_at = 0.0

        def plan_now() -> Plan:
            nonlocal planned_at
            planned_at = self._clock()
            return plan_within(profile, chosen)

        try:
            self._is_planning = True  # NVML's binding may start programs, which ask for a plan too
            plan = wait_for_plan(plan_now) if waiting else plan_now()
        finally:
            self._is_planning = False
        self._state = self._state._replace(planned_at=planned_at, pid=os.getpid())
        self._set_environment(plan)

    def _set_environment(self, plan: Plan | None) -> None:
        """Set what ``plan`` asks for, without one what needs no figures, and say what differs."""
        assert self._state is not None
        profile = self._state.profile
        changes, settings = environment_for(profile, plan)
        gpus = tuple(gpu.gpu.uuid for gpu in plan.gpus if gpu.gpu.uuid) if plan else None
        self._environment.write(changes, self._state.choice, gpus)
        self._state.activation.put_in_force(plan, changes, settings)
        self._state = self._state._replace(
            named=self._environment.named_profile, visibility=self._environment.visibility()
        )
        for text in [*(plan.notes if plan else ()), *(str(s) for s in settings if s.why_not)]:
            self._tell(text)
        debug(f"profile {profile.name} sets {changes}")

    def _tell(self, text: str) -> None:
        """Say ``text`` once in this process; a pool's workers would repeat what has been said."""
        if text not in self._said:
            self._said |= {text}
            (debug if is_worker() else say)(text)

    # --- all or nothing -------------------------------------------------------------------------

    def _whole(self, operation: Callable[[], _T]) -> _T:
        """Run ``operation``; whatever it raises, everything is put back as it was before."""
        before = None
        try:
            with self._lock:
                before = self._snapshot()
                return operation()
        except BaseException:
            if before is not None:
                with self._lock:
                    self._restore(before)
            raise

    def _snapshot(self) -> _Snapshot:
        state = self._state
        contents = None if state is None else state.activation.contents()
        return _Snapshot(state, contents, self._environment.written(), self._said)

    def _restore(self, before: _Snapshot) -> None:
        self._environment.take_back_to(before.written)
        self._state, self._said = before.state, before.said
        if before.state is not None and before.contents is not None:
            before.state.activation.restore(before.contents)


def is_worker() -> bool:
    """Whether multiprocessing, or multiprocess, started this process; imports neither.

    ``parent_process()`` is set only after a spawned child has imported the main module;
    ``_inheriting`` is multiprocessing's own mark of that import.
    """
    for name in ("multiprocessing.process", "multiprocess.process"):
        process = sys.modules.get(name)
        current = getattr(process, "current_process", None)
        if process is None or current is None:  # or its import is still running
            continue
        if getattr(current(), "_inheriting", False) or process.parent_process() is not None:
            return True
    return False
