"""What `import gpuconf.auto` and the public functions do: a profile is taken, its plan binds later.

See :mod:`gpuconf.binding` for the moments of a plan.  The frameworks are not imported here; each
meets its hook when the program imports it, or now if it has.
"""

from __future__ import annotations

import os
import time

from gpuconf import environ as environment
from gpuconf import framework_hooks
from gpuconf.binding import Binding
from gpuconf.callsite import main_script_folder
from gpuconf.errors import BackendError, with_short_tracebacks
from gpuconf.profile import Profile, load_profile
from gpuconf.report import Activation
from gpuconf.state_note import STATE_VARIABLE, encode
from gpuconf.terminal import say

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.planner import Plan
    from gpuconf.run_plan import RunPlan

_binding = Binding()
_off: Activation | None = None
_run: RunPlan | None = None


def activation() -> Activation | None:
    """What gpuconf did to this process; None if it has done nothing yet."""
    return _binding.activation or _off


def bound_plan() -> Plan | None:
    """The plan that a framework has been given in this process; None if none has been."""
    made = _binding.activation
    return made.plan if made is not None and _binding.is_bound else None


@with_short_tracebacks
def configure(profile: str | os.PathLike[str] | None = None, **overrides: object) -> Activation:
    """Apply a profile to this process, and return the report of it.

    ``profile`` is a name or a path; by default the one that docs/profiles.md says, which begins
    with ``$GPUCONF_PROFILE`` and ends with ``shared-desktop``.  Keywords are the profile's own keys
    and override it: ``memory={"memory_limit": "4GiB"}``, ``gpus=[0]``.

    What needs no figures is set now.  The plan is made when a framework is imported, and binds
    when that makes its devices.  Calling it again with the same arguments changes nothing, so a
    notebook cell may be run twice; where they come to another profile, that is applied, until
    TensorFlow has made its devices.  In a program that `gpuconf run` has started the run's plan
    holds, whatever the arguments.

    Raises ProfileError for a bad profile, UsageError for a bad variable of gpuconf's own,
    TooLateError once TensorFlow has made its devices; and where a framework is imported already,
    ShortageError if a card has too little left and BackendError where TensorFlow refuses.
    """
    global _off  # noqa: PLW0603  # one process has one set of devices
    disabled = environment.switched_off(os.environ)
    if disabled is not None:
        _off = _off or Activation(disabled=disabled)
        return _binding.activation or _off

    if os.environ.get("GPUCONF_NVML_TIMEOUT"):
        from gpuconf.hardware.patience import read_timeout_s

        read_timeout_s(os.environ)  # a slip there is an error here, and not at a framework's import

    run = _join_run()

    def load() -> Profile:
        return _load(profile, overrides) if run is None else run.profile

    wanted = load()
    if run is not None and (profile is not None or overrides):
        say(f"gpuconf.configure() changes nothing here: `gpuconf run` has set {wanted.name}")
    if _binding.activation is not None and _binding.profile == wanted:
        return _binding.activation
    framework_hooks.refuse_if_too_late(_binding)
    return _binding.take(
        wanted,
        load,
        then=lambda: framework_hooks.install(_binding),
        undo=lambda is_first: framework_hooks.undo_install(_binding, is_first=is_first),
    )


@with_short_tracebacks
def plan(profile: str | os.PathLike[str] | None = None, **overrides: object) -> Plan:
    """The plan that :func:`configure` would carry out with these arguments; changes nothing.

    Where that profile's plan holds in this process already, that one: a plan made now would count
    this process's own memory as another's.
    """
    run = _join_run() if profile is None and not overrides else None
    return _plan_of(_load(profile, overrides) if run is None else run.profile, run)


def plan_in_force() -> Plan:
    """The plan of the profile that is in force in this process; without one, that of `plan()`."""
    return plan() if _binding.profile is None else _plan_of(_binding.profile, _join_run())


def _plan_of(wanted: Profile, run: RunPlan | None) -> Plan:
    from gpuconf.machine_plan import plan_within

    made = _binding.activation
    if _binding.is_bound and _binding.profile == wanted and made is not None and made.plan:
        return made.plan
    read = None if run is None else lambda: run.inventory
    return plan_within(wanted, _binding.environment.chosen_before(), read=read)


@with_short_tracebacks
def install_session() -> object:
    """Give graph-mode Keras a ``tf.compat.v1.Session`` held to the plan; return the session.

    For scripts that switch to graph mode themselves; the profile key ``tensorflow.session:
    graph`` does it at import.  Calls :func:`configure` if nothing did.  Raises BackendError in
    eager mode and where only Keras 3 is there, TooLateError once devices exist.
    """
    made = _binding.activation or configure()
    if made.disabled is not None:
        raise BackendError(f"gpuconf is off ({made.disabled})", hint="unset GPUCONF_DISABLE")
    return framework_hooks.install_session(_binding)


def _join_run() -> RunPlan | None:
    """The `gpuconf run` that this process is in, whose plan it keeps to; None if it is in none."""
    global _run  # noqa: PLW0603  # a process is in one run
    if _run is None and os.environ.get(environment.RUN_VARIABLE) and _binding.activation is None:
        from gpuconf import run_plan
        from gpuconf.carried_plans import CarriedPlans

        _run = run_plan.read(os.environ)
        if _run is not None:
            _binding.plan_with(CarriedPlans(time.monotonic, _run))
    return _run


def _load(profile: str | os.PathLike[str] | None, overrides: dict[str, object]) -> Profile:
    """The profile of these arguments, of this process's GPUCONF_PROFILE, or of its parent."""
    environ = dict(os.environ)
    environ.pop(STATE_VARIABLE, None)  # our own, by now; the parent's counts
    note = _binding.environment.parent_note()
    if note is not None:
        environ[STATE_VARIABLE] = encode(note)
    return load_profile(
        profile,
        overrides=overrides or None,
        environ=environ,
        script_folder=main_script_folder(),
    )


os.register_at_fork(after_in_child=lambda: framework_hooks.after_fork(_binding))
