"""What `import gpuconf.auto` and the public functions do: take a profile, and bind its plan later.

See :mod:`gpuconf.session.binding` for the steps of a plan. This module imports no framework. Each
framework's hook runs when the program imports the framework, or immediately if the program has
already imported it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gpuconf.basics import environment
from gpuconf.basics.callsite import main_script_folder
from gpuconf.basics.state_note import STATE_VARIABLE, encode
from gpuconf.basics.terminal import say
from gpuconf.errors import BackendError, with_short_tracebacks
from gpuconf.planner import Plan
from gpuconf.profile import Profile, load_profile
from gpuconf.session import frameworks
from gpuconf.session.activation import Activation
from gpuconf.session.binding import Binding
from gpuconf.session.plans import plan_within

if TYPE_CHECKING:  # only a program under `gpuconf run` needs it
    from gpuconf.session.run_variable import RunPlan

_binding = Binding()
_off: Activation | None = None


def activation() -> Activation | None:
    """Return what gpuconf did to this process; None if it has done nothing yet."""
    return _binding.activation or _off


def bound_plan() -> Plan | None:
    """Return the plan that a framework has received in this process; None if there is none."""
    made = _binding.activation
    return made.plan if made is not None and _binding.is_bound else None


@with_short_tracebacks
def configure(profile: str | os.PathLike[str] | None = None, **overrides: object) -> Activation:
    """Apply a profile to this process and return a report of it.

    ``profile`` is a name or a path.  The default is resolved as docs/profiles.md describes, from
    ``$GPUCONF_PROFILE`` to ``shared-desktop``.  Keyword arguments are profile keys and override the
    profile: ``memory={"memory_limit": "4GiB"}``, ``gpus=[0]``.

    Settings that need no measurements take effect now. The plan is made when a framework is
    imported, and takes effect when the framework creates its devices. A second call with the same
    arguments changes nothing, so a notebook cell can be rerun. A call that results in a different
    profile applies that profile, unless TensorFlow has already created its devices. In a program
    started by `gpuconf run`, the run's plan applies whatever the arguments.

    Raises ProfileError for a bad profile, UsageError for a bad gpuconf variable, and TooLateError
    once TensorFlow has created its devices.  If a framework is already imported, it also raises
    ShortageError if a GPU has too little free memory, and BackendError if TensorFlow refuses.
    """
    global _off  # noqa: PLW0603  # one process has one set of devices
    disabled = environment.switched_off(os.environ)
    if disabled is not None:
        _off = _off or Activation(disabled=disabled)
        return _binding.activation or _off

    if os.environ.get("GPUCONF_NVML_TIMEOUT"):
        from gpuconf.machine.cards.nvml_timeout import read_timeout_s

        read_timeout_s(os.environ)  # report a bad value here, not at a framework's import

    run = _join_run()

    def load() -> Profile:
        return _load(profile, overrides) if run is None else run.profile

    wanted = load()
    if run is not None and (profile is not None or overrides):
        say(f"gpuconf.configure() changes nothing here: `gpuconf run` has set {wanted.name}")
    if _binding.activation is not None and _binding.profile == wanted:
        return _binding.activation
    frameworks.refuse_if_too_late(_binding)
    return _binding.take(
        wanted,
        load,
        then=lambda: frameworks.install(_binding),
        undo=lambda is_first: frameworks.undo_install(_binding, is_first=is_first),
    )


@with_short_tracebacks
def plan(profile: str | os.PathLike[str] | None = None, **overrides: object) -> Plan:
    """Return the plan that :func:`configure` would apply with these arguments; change nothing.

    If that profile's plan is already bound in this process, return it: a new plan would count this
    process's own memory as another program's.
    """
    run = _join_run() if profile is None and not overrides else None
    return _plan_of(_load(profile, overrides) if run is None else run.profile, run)


def plan_in_force() -> Plan:
    """Return the active profile's plan in this process; if there is none, the one from `plan()`."""
    return plan() if _binding.profile is None else _plan_of(_binding.profile, _join_run())


def _plan_of(wanted: Profile, run: RunPlan | None) -> Plan:
    made = _binding.activation
    if _binding.is_bound and _binding.profile == wanted and made is not None and made.plan:
        return made.plan
    return plan_within(wanted, _binding.environment.chosen_before(), run=run)


@with_short_tracebacks
def install_session() -> object:
    """Give graph-mode Keras a ``tf.compat.v1.Session`` limited by the plan; return the session.

    For scripts that switch to graph mode themselves; the profile key ``tensorflow.session: graph``
    does the same at import. Calls :func:`configure` if it has not been called yet. Raises
    BackendError in eager mode or if Keras 3 is the only Keras, and TooLateError once devices exist.
    """
    made = _binding.activation or configure()
    if made.disabled is not None:
        raise BackendError(f"gpuconf is off ({made.disabled})", hint="unset GPUCONF_DISABLE")
    return frameworks.install_session(_binding)


def _join_run() -> RunPlan | None:
    """Return the `gpuconf run` that this process belongs to, and use its plan; None if there is
    none.
    """
    if os.environ.get(environment.RUN_VARIABLE) and _binding.activation is None:
        from gpuconf.session import run_variable

        _binding.run = _binding.run or run_variable.read(os.environ)
    return _binding.run


def _load(profile: str | os.PathLike[str] | None, overrides: dict[str, object]) -> Profile:
    """Load the profile from the arguments, this process's GPUCONF_PROFILE, or its parent."""
    environ = dict(os.environ)
    environ.pop(STATE_VARIABLE, None)  # ours by now; the parent's note is the one to use
    note = _binding.environment.parent_note()
    if note is not None:
        environ[STATE_VARIABLE] = encode(note)
    return load_profile(
        profile,
        overrides=overrides or None,
        environ=environ,
        script_folder=main_script_folder(),
    )


if sys.platform != "win32":
    os.register_at_fork(after_in_child=lambda: frameworks.after_fork(_binding))
