"""One imported TensorFlow under a profile; its plan is bound when TensorFlow lists its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuconf.backends import keras_session
from gpuconf.backends.interface import PlanSource
from gpuconf.backends.tensorflow import early_init
from gpuconf.backends.tensorflow.guards import Guards
from gpuconf.errors import TooLateError

if TYPE_CHECKING:
    from gpuconf.profile import Profile

_guards: Guards | None = None
_WHAT = "too late: TensorFlow initialized its GPUs"
_NO_EFFECT = "A limit set now has no effect"


def refuse_if_too_late() -> None:
    """Raise TooLateError if TensorFlow has created its devices, with the line that did it."""
    made_at = None if _guards is None else _guards.devices.made_at
    if made_at is not None:
        profile = _guards.plan.profile.name if _guards and _guards.plan else "none"
        raise TooLateError(
            f"{_WHAT} at {made_at}, under profile {profile}. {_NO_EFFECT}",
            hint="restart with the profile you want: `GPUCONF_PROFILE=NAME python ...`, or restart "
            "the kernel",
        )
    evidence = early_init.devices_exist()
    if evidence is not None:
        from gpuconf.backends.find_init_line import too_late

        raise too_late(_WHAT, evidence.makers, f": {evidence.how}. {_NO_EFFECT}")


def hold(tf: Any, source: PlanSource) -> None:
    """From now on, let the imported TensorFlow create devices only under the plan of ``source``.

    Raises TooLateError if it has already created them.
    """
    global _guards  # noqa: PLW0603  # one TensorFlow per process, and one first caller
    refuse_if_too_late()
    _guards = _guards or _installed(tf, source)
    _guards.take(source)


def apply(profile: Profile, tf: Any) -> None:
    """Apply ``profile`` to the TensorFlow module that the guards hold.

    The plan is bound when TensorFlow first lists its GPUs, or now if it already has; see guards.py.
    Raises TooLateError, or BackendError if TensorFlow refuses.
    """
    if profile.tensorflow.session == "graph":
        keras_session.leave_eager_mode(tf)
    if _guards is not None and (_has_listed_devices() or not _guards.waits_for_listing):
        _guards.configure()


def _installed(tf: Any, source: PlanSource) -> Guards:
    """Return guards around TensorFlow; guards of an interrupted attempt are disabled."""
    guards = Guards(tf)
    guards.take(source)
    try:
        guards.install()
    except BaseException:
        guards.take(None)
        raise
    return guards


def release() -> None:
    """Release TensorFlow: scripts' calls pass through unchanged."""
    if _guards is not None:
        _guards.take(None)


def hold_again(source: PlanSource) -> None:
    """Bind the plan of ``source`` at the next listing, after another plan was rejected."""
    if _guards is not None and _guards.devices.made_at is None:
        _guards.take(source)


def is_held_with_devices() -> bool:
    """Whether TensorFlow has created its devices under our plan, so that nothing is left to do."""
    return _guards is not None and _guards.devices.made_at is not None


def reconsider() -> None:
    """After an import of Keras, hide the GPUs from TensorFlow if Keras uses another backend.

    This can wait until TensorFlow has listed its GPUs.
    """
    if _guards is not None and _guards.is_configured and early_init.devices_exist() is None:
        _guards.hide_beside_keras()


def after_fork() -> None:
    """Reset the guards in a forked child of this process."""
    if _guards is not None:
        _guards.after_fork()


def _has_listed_devices() -> bool:
    from tensorflow.python.eager import context

    return getattr(context.context(), "_physical_devices", None) is not None
