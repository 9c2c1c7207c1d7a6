"""When the plan binds: one profile in one process, planned when needed, bound when devices are made.

Three moments, each later and more certain than the one before:

1. :meth:`Binding.take`, at ``import gpuconf.auto``: what needs no figures is set, and NVML not asked.
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
from typing import NamedTuple

from gpuconf import environ as environment
from gpuconf import state_note
from gpuconf.environ import VISIBILITY, Patch
from gpuconf.errors import GpuconfError, ProfileError, ShortageError
from gpuconf.machine_plan import environment_for, plan_within, wait_for_plan
from gpuconf.profile import absolute_path, choice_of
from gpuconf.report import Activation, Contents
from gpuconf.state_note import STATE_VARIABLE, Note
from gpuconf.terminal import debug, say

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.planner import Plan
    from gpuconf.profile import ParentChoice, Profile
    from gpuconf.settings import Setting

# Figures older than this are read anew when devices are made.  To ask NVML takes milliseconds; what
# another program can take of a card within a second is little beside a framework's start.
FRESH_S = 1.0
PROFILE_VARIABLE = "GPUCONF_PROFILE"


class _State(NamedTuple):
    """What changes as a process goes from one moment to the next.

    ``choice`` is the profile as children are told of it, ``load`` gives the one that the program
    asks for now, and ``asked`` is the GPUCONF_PROFILE it was loaded with.  ``visibility`` is what CUDA's variables were after ours were set.
    ``planned_at`` is the clock when the figures were read, ``pid`` the process that did,
    ``bound_pid`` the one that bound.
    """

    profile: Profile
    activation: Activation
    choice: ParentChoice
    load: Callable[[], Profile]
    asked: str | None = None
    visibility: tuple[str | None, ...] = (None, None)
    planned_at: float | None = None
    pid: int = 0
    bound_pid: int | None = None


class _Snapshot(NamedTuple):
    """All that an operation may change, as it was before."""

    state: _State | None
    contents: Contents | None
    wrote: tuple[str | None, int] | None
    inherited: dict[str, str]
    parent: Note | None
    said: frozenset[str]
    patches: int


class Binding:
    """The profile in force in this process, and its plan.

    Each operation does all it says, or leaves environment, activation and itself as they were,
    whatever is raised in it, KeyboardInterrupt too.  ``clock`` is in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state: _State | None = None
        self._wrote: tuple[str | None, int] | None = None  # our own note, and who wrote it
        self._parent: Note | None = None  # the note that was there before our own
        self._inherited: dict[str, str] = {}  # what a parent's plan made visible
        self._said: frozenset[str] = frozenset()
        self._patches: list[Patch] = []
        self._is_planning = False
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
    def is_bound(self) -> bool:
        """Whether the plan holds in this process already, and is not made again."""
        return self._state is not None and self._state.bound_pid == os.getpid()

    def record(self, setting: Setting) -> None:
        """Add a setting's fate to the activation in force."""
        if self._state is not None:
            self._state.activation.record(setting)

    # --- the three moments ----------------------------------------------------------------------

    def take(self, profile: Profile, load: Callable[[], Profile], then: Callable[[], None]) -> None:
        """Put ``profile`` in force and call ``then``; what was in force stays so if that raises.

        ``load`` gives the profile that the program asks for at the time of the call.
        """
        self._whole(lambda: self._take(profile, load, then))

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
            if self._is_planning or state is None or state.planned_at is not None:
                return
            self._whole(lambda: self._plan(waiting=False))
        except GpuconfError as error:
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

    def parent_note(self) -> Note | None:
        """What this process's parent left for it; None if nothing."""
        return self._parent if self._has_own_note() else state_note.read_note(os.environ)

    def chosen_before(self) -> dict[str, str]:
        """CUDA's variables of ours that a plan made now must stay within.

        A parent's always; this process's own once CUDA has read them.
        """
        ours = environment.set_by_gpuconf(os.environ)
        ours = {name: ours[name] for name in VISIBILITY if name in ours}
        if not ours or not self._has_own_note():
            return ours
        from gpuconf.hardware.cuda_driver import has_started

        return ours if has_started() else self._inherited

    def _has_own_note(self) -> bool:
        """Whether the note in the environment is this process's own, and not a parent's."""
        return self._wrote == (os.environ.get(STATE_VARIABLE), os.getpid())

    def _take(
        self, profile: Profile, load: Callable[[], Profile], then: Callable[[], None]
    ) -> None:
        self._state = _State(profile, Activation(profile), choice_of(profile), load)
        if profile.gpus.kind == "none":  # nobody need be asked
            self._plan(waiting=False)
        else:
            self._set_environment(None)
        for note in profile.notes:
            self._tell(note)
        then()

    def _prepare(self) -> None:
        if self._state is None or self.is_bound or not self._is_outdated():
            return
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
        changed = self._changed_variables(state)
        if changed:
            now = ", ".join(f"{name}={os.environ.get(name, '')}" for name in changed)
            say(f"the script has set {now} after gpuconf; planning again with that")
        return bool(changed)

    def _changed_variables(self, state: _State) -> list[str]:
        """Those that CUDA or a framework reads and that the script has changed since."""
        ours = environment.set_by_gpuconf(os.environ)
        changed = [name for name in state.activation.environment if name not in ours]
        for name, was in zip(VISIBILITY, state.visibility, strict=True):
            if os.environ.get(name) != was and name not in changed:
                changed.append(name)
        return changed

    def _is_old(self) -> bool:
        state = self._state
        if state is None or state.planned_at is None or state.profile.gpus.kind == "none":
            return False
        return self._clock() - state.planned_at > FRESH_S

    def _follow_profile(self) -> None:
        """Where the program has set GPUCONF_PROFILE since, take the profile that it wants now."""
        state = self._state
        if state is None or os.environ.get(PROFILE_VARIABLE) == state.asked:
            return
        profile = state.load()
        if profile != state.profile:
            asked = os.environ.get(PROFILE_VARIABLE, "")
            say(f"the script has set GPUCONF_PROFILE={asked} after gpuconf; that profile holds now")
            self._state = _State(profile, Activation(profile), choice_of(profile), state.load)

    # --- making the plan and setting it ---------------------------------------------------------

    def _plan(self, *, waiting: bool) -> None:
        """Plan for the profile in force now, and set the environment."""
        assert self._state is not None
        profile, chosen = self._state.profile, self.chosen_before()
        planned_at = 0.0

        def plan_now() -> Plan:
            nonlocal planned_at
            planned_at = self._clock()
            return plan_within(profile, chosen)

        self._is_planning = True  # NVML's binding may start programs, which ask for a plan too
        try:
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
        if not self._has_own_note():
            self._inherited, self._parent = self.chosen_before(), self.parent_note()
        if plan is None:  # what a parent chose holds until a plan of our own stays within it
            changes |= self._inherited
        patch = self._patch_for(changes, plan)
        self._patches.append(patch)
        patch.apply(os.environ)
        self._wrote = (os.environ.get(STATE_VARIABLE), os.getpid())
        self._state.activation.put_in_force(plan, changes, settings)
        self._state = self._state._replace(
            asked=os.environ.get(PROFILE_VARIABLE),
            visibility=tuple(os.environ.get(name) for name in VISIBILITY),
        )
        for text in [*(plan.notes if plan else ()), *(str(s) for s in settings if s.why_not)]:
            self._tell(text)
        debug(f"profile {profile.name} sets {changes}")

    def _patch_for(self, changes: dict[str, str], plan: Plan | None) -> Patch:
        assert self._state is not None
        choice = self._state.choice
        named = os.environ.get(PROFILE_VARIABLE)
        asked = absolute_path(named) or named if named else None
        gpus = tuple(gpu.gpu.uuid for gpu in plan.gpus if gpu.gpu.uuid) if plan else ()
        note = Note(state_note.this_process(), (), choice.profile, choice.origin, asked or "", gpus)
        patch = environment.patch_for(changes, note, os.environ)
        if asked != named:  # a child may run in another folder
            patch = Patch({**patch.values, PROFILE_VARIABLE: (named, asked)})
        _refuse_unwritable(patch, self._state.profile)
        return patch

    def _tell(self, text: str) -> None:
        """Say ``text`` once in this process; a pool's workers would repeat what has been said."""
        if text not in self._said:
            self._said |= {text}
            (debug if is_worker() else say)(text)

    # --- all or nothing -------------------------------------------------------------------------

    def _whole(self, operation: Callable[[], None]) -> None:
        """Run ``operation``; whatever it raises, everything is put back as it was before."""
        before = None
        try:
            with self._lock:
                before = self._snapshot()
                operation()
        except BaseException:
            if before is not None:
                with self._lock:
                    self._restore(before)
            raise

    def _snapshot(self) -> _Snapshot:
        state = self._state
        contents = None if state is None else state.activation.contents()
        return _Snapshot(
            state,
            contents,
            self._wrote,
            self._inherited,
            self._parent,
            self._said,
            len(self._patches),
        )

    def _restore(self, before: _Snapshot) -> None:
        while len(self._patches) > before.patches:
            self._patches.pop().undo(os.environ)
        self._state, self._wrote, self._said = before.state, before.wrote, before.said
        self._inherited, self._parent = before.inherited, before.parent
        if before.state is not None and before.contents is not None:
            before.state.activation.restore(before.contents)


def _refuse_unwritable(patch: Patch, profile: Profile) -> None:
    """Raise ProfileError for a value that the locale's encoding cannot hold; nothing is set yet."""
    for name, (_, value) in patch.values.items():
        try:
            os.fsencode(value or "")
        except UnicodeEncodeError:
            encoding = sys.getfilesystemencoding()
            raise ProfileError(
                f"env.{name}: {value!a} cannot be set, because this locale's encoding, "
                f"{encoding}, has no such characters",
                hint="export PYTHONUTF8=1, or write ASCII",
                file=profile.source,
                key=f"env.{name}",
            ) from None


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
