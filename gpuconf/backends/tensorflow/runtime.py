"""One imported TensorFlow under a plan: applied once, re-applied until it has made its devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuconf.backends import keras_session
from gpuconf.backends.tensorflow import devices, lateness
from gpuconf.backends.tensorflow.guards import Guards
from gpuconf.errors import TooLateError
from gpuconf.planner import Plan

_guards: Guards | None = None


def refuse_if_too_late() -> None:
    """Raise TooLateError if TensorFlow has made its devices, with the line that did it."""
    made_at = None if _guards is None else _guards.devices_made_at
    if made_at is not None:
        raise _too_late(f"at {made_at}")
    evidence = lateness.devices_exist()
    if evidence is None:
        return
    from gpuconf.backends.tensorflow.suspects import likely_line

    likely = likely_line(evidence.makers)
    where = f"before gpuconf came, most likely at {likely}" if likely else "before gpuconf came"
    raise _too_late(f"{where}: {evidence.how}")


def _too_late(where: str) -> TooLateError:
    return TooLateError(
        f"TensorFlow has already made its GPU devices, {where}. What is set now would not act",
        hint="make `import gpuconf.auto` the first line of the script, or of the notebook "
        "after a kernel restart",
    )


def apply(
    plan: Plan,
    tf: Any,
    record: devices.Record,
    *,
    before_devices: Callable[[], None] | None = None,
) -> None:
    """Bring ``plan`` to the imported TensorFlow.

    ``before_devices`` is called right before the first GPU device is made, and may raise.
    Raises TooLateError or BackendError; the import of tensorflow then fails.
    """
    global _guards  # noqa: PLW0603  # there is one TensorFlow in a process, and one first maker
    refuse_if_too_late()
    if _guards is None:
        _guards = Guards(plan, record)
        _guards.install()
    _guards.plan, _guards.record = plan, record
    _guards.before_devices = before_devices
    _guards.is_configuring = True
    try:
        if plan.profile.tensorflow.session == "graph":
            keras_session.leave_eager_mode(tf)
        if keras_session.keras_runs_elsewhere() is not None:
            devices.hide(tf, record)
        elif plan.profile.tensorflow.session != "graph" or plan.hides_gpus:
            # In graph mode the session's own options say it all; see keras_session.
            devices.configure(plan, tf, record)
    finally:
        _guards.is_configuring = False


def devices_made_at() -> str | None:
    """The user's line that made TensorFlow's GPU devices; None while they do not exist."""
    made_at = None if _guards is None else _guards.devices_made_at
    return None if made_at is None else str(made_at)
