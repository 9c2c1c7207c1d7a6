"""This process's environment: the variables of a plan, what gpuconf or a parent has set, and how to
undo it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from gpuconf.backends import environment_changes, unenforced_limits
from gpuconf.backends.jax.environment import NEW_FRACTION
from gpuconf.backends.keras_backend import forces_growth
from gpuconf.basics import environment, state_note
from gpuconf.basics.environment import VISIBILITY, WATCHED, Patch
from gpuconf.basics.setting import Setting
from gpuconf.basics.state_note import StateNote
from gpuconf.errors import ProfileError
from gpuconf.planner import Plan
from gpuconf.profile import ParentChoice, Profile, absolute_path

PROFILE_VARIABLE = "GPUCONF_PROFILE"
_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"


class Written(NamedTuple):
    """What has been written so far, so that later changes can be undone.

    ``pid`` is the process that wrote its own note, 0 for none.  ``parent`` is the note that was
    there before, and ``inherited`` holds CUDA's variables from it.
    """

    patches: tuple[Patch, ...] = ()
    pid: int = 0
    parent: StateNote | None = None
    inherited: Mapping[str, str] = {}


class OwnEnvironment:
    """The ``environ`` of this process, by default ``os.environ``; every change can be undone."""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._written = Written()

    @property
    def named_profile(self) -> str | None:
        """The current GPUCONF_PROFILE."""
        return self._environ.get(PROFILE_VARIABLE)

    def watched(self) -> tuple[str | None, ...]:
        """Return the current values of the variables that a plan depends on."""
        return tuple(self._environ.get(name) for name in WATCHED)

    def parent_note(self) -> StateNote | None:
        """Return the note that the parent left for this process; None if there is none."""
        return self._written.parent if self._has_own_note() else state_note.read_note(self._environ)

    def as_cuda_read_it(self, watched: tuple[str | None, ...]) -> dict[str, str]:
        """Return the environment with CUDA's variables as in ``watched``, when CUDA was
        initialized.
        """
        then = dict(zip(WATCHED, watched, strict=True))
        now = {**self._environ, **{name: then[name] for name in VISIBILITY}}
        return {name: value for name, value in now.items() if value is not None}

    def chosen_before(self, environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Return the CUDA variables set by gpuconf that a plan made in ``environ`` must respect.

        ``environ`` is by default the current one.  A parent's variables always apply; this
        process's own apply once CUDA has read them.
        """
        ours = environment.set_by_gpuconf(self._environ if environ is None else environ)
        ours = {name: ours[name] for name in VISIBILITY if name in ours}
        if not ours or not self._has_own_note():
            return ours
        from gpuconf.machine.cards.cuda_driver import has_started  # with ctypes

        return ours if has_started() else self._written.inherited

    def changed_since(
        self, ours: Mapping[str, str], watched: tuple[str | None, ...]
    ) -> dict[str, str]:
        """Return the variables in ``ours`` or watched that have changed since, with current values.

        If Keras itself has overwritten one of our variables, restore ours first.
        """
        if _GROWTH in ours and forces_growth(self._environ.get(_GROWTH)):
            self._environ[_GROWTH] = ours[_GROWTH]
        kept = environment.set_by_gpuconf(self._environ)
        names = [name for name in ours if name not in kept]
        for name, was in zip(WATCHED, watched, strict=True):
            if self._environ.get(name) != was and name not in names:
                names.append(name)
        return {name: self._environ.get(name, "") for name in names}

    def write(
        self, changes: Mapping[str, str], choice: ParentChoice, gpus: tuple[str, ...] | None
    ) -> None:
        """Set the environment to the user's plus ``changes``, with a note for child processes.

        ``gpus`` are the UUIDs of the plan; None if there is no plan yet, in which case a parent's
        choice stays in effect. A relative GPUCONF_PROFILE becomes absolute, since a child may run
        in another folder. Raises ProfileError for a value that cannot be written, in which case
        nothing is written.
        """
        if not self._has_own_note():
            parent, inherited = self.parent_note(), self.chosen_before()
            self._written = self._written._replace(parent=parent, inherited=inherited)
        if gpus is None:
            changes = {**self._written.inherited, **changes}
        named = self.named_profile
        asked = (absolute_path(named) or named) if named else named
        writer = state_note.this_process()
        note = StateNote(writer, (), choice.profile, choice.origin, asked or "", gpus or ())
        patch = environment.patch_for(changes, note, self._environ)
        if asked != named:
            patch = Patch({**patch.values, PROFILE_VARIABLE: (named, asked)})
        for name, (_, value) in patch.values.items():
            _refuse_unwritable(name, value or "")
        self._written = self._written._replace(patches=(*self._written.patches, patch))
        patch.apply(self._environ)
        self._written = self._written._replace(pid=os.getpid())

    def written(self) -> Written:
        """Return what has been written so far, for :meth:`take_back_to`."""
        return self._written

    def take_back_to(self, written: Written) -> None:
        """Undo everything written after that; keep changes made by other code in the meantime."""
        for patch in reversed(self._written.patches[len(written.patches) :]):
            patch.undo(self._environ)
        self._written = written

    def _has_own_note(self) -> bool:
        """Whether the note in the environment was written by this process, not by a parent."""
        if self._written.pid != os.getpid():
            return False
        # Check the writer: the program may have restored an earlier environment with an earlier
        # note.
        note = state_note.read_note(self._environ)
        return note is not None and note.writer.pid == os.getpid()


def _refuse_unwritable(name: str, value: str) -> None:
    """Raise ProfileError for a value that the locale's encoding cannot represent."""
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise ProfileError(
            f"env.{name}: {value!a} cannot be set, because this locale's encoding, "
            f"{sys.getfilesystemencoding()}, cannot represent it",
            hint="export PYTHONUTF8=1, or use only ASCII",
            key=f"env.{name}",
        ) from None


def environment_for(
    profile: Profile, plan: Plan | None, environ: Mapping[str, str] = os.environ
) -> tuple[dict[str, str], list[Setting]]:
    """Return the variables to set on top of ``environ``, and the outcome of each; change nothing.

    Without a ``plan``, only the variables that need no figures.
    """
    baseline = environment.before_gpuconf(environ)
    has_tf_keras = profile.tensorflow.session == "graph" and is_installed("tf_keras")
    wishes = environment_changes(
        profile,
        plan,
        baseline,
        has_tf_keras=has_tf_keras,
        has_amd_gpu=os.path.exists("/dev/kfd"),
        knows_new_jax_name=plan is not None and _jax_reads(NEW_FRACTION),
        has_cupy=plan is not None and is_installed("cupy"),
    )
    changes, settings = environment.settle(wishes, baseline)
    return changes, [*settings, *unenforced_limits(plan, {**baseline, **changes})]


def is_installed(package: str) -> bool:
    """Whether a top-level package is installed, including editable installs; imports nothing.

    A plain folder of that name, which Python would treat as a namespace package, does not count.
    """
    return _file_of(package) is not None


def _file_of(package: str) -> str | None:
    for finder in list(sys.meta_path):
        try:
            spec = finder.find_spec(package, None, None)
        except Exception:  # some finders raise for modules that they block
            continue
        if spec is not None and spec.loader is not None and spec.origin is not None:
            return spec.origin
    return None


def _jax_reads(variable: str) -> bool:
    """Whether the installed JAX reads ``variable``; the jaxlib source names every variable it
    reads.
    """
    found = _file_of("jaxlib")
    if found is None:
        return False
    try:
        with open(os.path.join(os.path.dirname(found), "xla_client.py"), encoding="utf-8") as file:
            return variable in file.read()
    except (OSError, UnicodeDecodeError):
        return False
