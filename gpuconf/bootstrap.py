"""Profile -> inventory -> plan -> environment -> import hooks: what `import gpuconf.auto` does.

Everything is decided before anything is set, so an error leaves the process as it was.  The
frameworks themselves are not imported here; each gets its settings when the program imports it,
or now if it has.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping

from gpuconf import environ as environment
from gpuconf import framework_hooks
from gpuconf.backends import environment_changes, voided_caps
from gpuconf.errors import BackendError, ShortageError
from gpuconf.hardware import Inventory, read_inventory
from gpuconf.planner import Plan, hidden_plan, make_plan, needs_inventory
from gpuconf.profile import Profile, load_profile
from gpuconf.report import Activation
from gpuconf.settings import Setting
from gpuconf.terminal import debug, say
from gpuconf.units import short_duration

_POLL_S = 2.0
_REPORT_EVERY_S = 60.0
_CUDA_VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")

_current: Activation | None = None
_lock = threading.RLock()


def activation() -> Activation | None:
    """What gpuconf did to this process; None if it has done nothing yet."""
    return _current


def configure(profile: str | os.PathLike[str] | None = None, **overrides: object) -> Activation:
    """Apply a profile to this process, and return the report of it.

    ``profile`` is a name or a path, by default ``$GPUCONF_PROFILE``, else the project's
    ``gpuconf.yaml``, else ``shared-desktop``.
    Keywords are the profile's own keys and override it: ``memory={"memory_limit": "4GiB"}``,
    ``gpus=[0]``.  Calling it again with the same arguments changes nothing, so a notebook cell
    may be run twice; where they come to another profile, that is applied, until TensorFlow has
    made its devices.

    Raises ProfileError for a bad profile, ShortageError where a card has too little left,
    TooLateError once TensorFlow has made its devices, BackendError where TensorFlow refuses.
    """
    global _current  # noqa: PLW0603  # one process has one set of devices
    disabled = environment.switched_off(os.environ)
    if disabled is not None:
        _current = _current or Activation(disabled=disabled)
        return _current
    wanted = load_profile(profile, overrides=overrides or None)
    with _lock:
        if _current is not None and _current.plan is not None and _current.plan.profile == wanted:
            return _current
        return _activate(wanted)


def plan(profile: str | os.PathLike[str] | None = None, **overrides: object) -> Plan:
    """The plan that :func:`configure` would carry out with these arguments; changes nothing."""
    return plan_for(load_profile(profile, overrides=overrides or None))


def install_session() -> object:
    """Give graph-mode Keras a ``tf.compat.v1.Session`` held to the plan; return the session.

    For scripts that switch to graph mode themselves; the profile key ``tensorflow.session:
    graph`` does it at import.  Calls :func:`configure` if nobody did.  Raises BackendError in
    eager mode and where only Keras 3 is there, TooLateError once devices exist.
    """
    made = _current or configure()
    if made.plan is None:
        raise BackendError(f"gpuconf is off ({made.disabled})", hint="unset GPUCONF_DISABLE")
    return framework_hooks.install_session(made, made.plan)


def plan_for(
    profile: Profile,
    *,
    environ: Mapping[str, str] = os.environ,
    read: Callable[[], Inventory] = read_inventory,
) -> Plan:
    """The plan for ``profile`` on this machine now; changes nothing.  Raises as make_plan does."""
    baseline = environment.before_gpuconf(environ)
    inventory = read() if needs_inventory(profile) else Inventory()
    chosen = environment.set_by_gpuconf(environ).get("CUDA_VISIBLE_DEVICES")
    return make_plan(profile, inventory, environ=baseline, chosen_by_parent=chosen)


def wait_for_plan(
    profile: Profile,
    *,
    environ: Mapping[str, str] = os.environ,
    read: Callable[[], Inventory] = read_inventory,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Plan:
    """As :func:`plan_for`, and where the policy is ``wait``, try again until its time is up."""
    started = clock()
    say_next_at = started
    while True:
        try:
            return plan_for(profile, environ=environ, read=read)
        except ShortageError as error:
            if error.wait_s is None:
                raise
            now = clock()
            left_s = started + error.wait_s - now
            if left_s <= 0:
                waited = short_duration(error.wait_s)
                message = f"waited {waited} in vain. {error.message}"
                raise ShortageError(message, hint=error.hint, shortage=error.shortage) from None
            if now >= say_next_at:
                say_next_at = now + _REPORT_EVERY_S
                say(f"waiting {left_s:.0f} s at most for memory: {error.shortage}")
        sleep(min(_POLL_S, left_s))


def environment_for(
    plan: Plan, environ: Mapping[str, str] = os.environ
) -> tuple[dict[str, str], list[Setting]]:
    """The variables that ``plan`` sets over ``environ``, and the fate of each; changes nothing."""
    baseline = environment.before_gpuconf(environ)
    wishes = environment_changes(plan, baseline, has_tf_keras=_can_import("tf_keras"))
    changes, settings = environment.settle(wishes, baseline)
    return changes, [*settings, *voided_caps(plan, {**baseline, **changes})]


def _activate(profile: Profile) -> Activation:
    """Put ``profile`` in force; what was in force before stays so if that fails."""
    global _current  # noqa: PLW0603  # one process has one set of devices
    framework_hooks.refuse_if_too_late()
    previous, before = _current, dict(os.environ)
    try:
        _current = _prepare(profile)
        framework_hooks.install(_in_force)
    except BaseException:
        environment.put_back(before, os.environ)
        _current = previous
        _return_to(previous)
        raise
    return _current


def _return_to(previous: Activation | None) -> None:
    """Give the frameworks back what they had before a profile that was refused."""
    framework_hooks.release()
    if previous is not None and previous.plan is not None:
        framework_hooks.install(_in_force)


def _prepare(profile: Profile) -> Activation:
    """Plan, set the environment, and say what there is to say."""
    is_worker = _is_worker_process()
    plan, put_off = _plan_or_put_off(profile, is_worker=is_worker)
    changes, settings = environment_for(plan)
    environment.apply(changes, os.environ)
    made = Activation(
        plan,
        environment=changes,
        cuda_variables={name: os.environ[name] for name in _CUDA_VARIABLES if name in os.environ},
        put_off=put_off,
        is_worker=is_worker,
    )
    for setting in settings:
        made.record(setting)
    # A pool's workers would repeat what the program has said already.
    tell = debug if is_worker else say
    for text in [*plan.notes, *(str(setting) for setting in settings if setting.why_not)]:
        tell(text)
    debug(f"profile {profile.name} sets {changes}")
    return made


def _in_force() -> Activation:
    """The activation in force; planned anew if the script has changed its variables since.

    ``os.environ["CUDA_VISIBLE_DEVICES"] = "1"`` stands in countless scripts, below our line.
    """
    global _current  # noqa: PLW0603
    if _current is None or _current.plan is None:
        return _current or Activation(disabled="nothing was configured")
    ours = environment.set_by_gpuconf(os.environ)
    changed = [name for name in _current.environment if name not in ours]
    for name in _CUDA_VARIABLES:
        if os.environ.get(name) != _current.cuda_variables.get(name) and name not in changed:
            changed.append(name)
    if changed:
        now = ", ".join(f"{name}={os.environ.get(name, '')}" for name in changed)
        say(f"the script has set {now} after gpuconf; planning again with that")
        _current = _prepare(_current.plan.profile)
    return _current


def _plan_or_put_off(profile: Profile, *, is_worker: bool) -> tuple[Plan, ShortageError | None]:
    """The plan; in a worker process, a shortage is put off until it makes devices, if ever.

    A spawned worker imports the program's main module, and with it us, while its parent holds
    the card's memory.  Most workers only load data and must live, and not wait either.
    """
    if not is_worker:
        return wait_for_plan(profile), None
    try:
        return plan_for(profile), None
    except ShortageError as error:
        return hidden_plan(profile), error


def _can_import(name: str) -> bool:
    """Whether a top-level package is installed, also in editable ways; imports nothing."""
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    return any(find is not None and find(name, None) is not None for find in finders)


def _is_worker_process() -> bool:
    """Whether multiprocessing started this process; found out without importing it.

    ``parent_process()`` is set only after a spawned child has imported the main module;
    ``_inheriting`` is multiprocessing's own mark of that import.
    """
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return False
    inheriting = getattr(process.current_process(), "_inheriting", False)
    return bool(inheriting) or process.parent_process() is not None
