"""A profile on this machine right now: its plan, and the environment variables that implement it.

Nothing is changed here; see :mod:`gpuconf.session.binding` for when a plan is made and put in
force.  The planner and NVML are imported only when a plan is made: the settings that need no
figures (growth, allocators, ``env``) need neither.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping

from gpuconf.backends import environment_changes, voided_caps
from gpuconf.backends.jax.environment import NEW_FRACTION
from gpuconf.basics import environment
from gpuconf.basics.setting import Setting
from gpuconf.basics.terminal import say
from gpuconf.errors import ShortageError
from gpuconf.machine.cards import Inventory
from gpuconf.planner import Plan
from gpuconf.profile import Profile

POLL_S = 2.0
REPORT_EVERY_S = 600.0


def plan_for(
    profile: Profile,
    *,
    environ: Mapping[str, str] = os.environ,
    read: Callable[[], Inventory] | None = None,
) -> Plan:
    """Make the plan for ``profile`` on this machine now; change nothing.  Raises as make_plan does.

    ``read`` returns the machine's GPUs; by default it asks NVML.
    """
    ours = environment.set_by_gpuconf(environ)
    return plan_within(profile, ours, environ=environ, read=read)


def plan_within(
    profile: Profile,
    chosen: Mapping[str, str],
    *,
    environ: Mapping[str, str] = os.environ,
    read: Callable[[], Inventory] | None = None,
) -> Plan:
    """Like :func:`plan_for`, limited to the GPUs that CUDA's variables in ``chosen`` show."""
    from gpuconf.machine.cards.inventory import Inventory
    from gpuconf.planner import make_plan, needs_inventory

    baseline = environment.before_gpuconf(environ)
    cards = (read or reader_for(profile))() if needs_inventory(profile) else Inventory()

    def make(candidate: Profile) -> Plan:
        asked = needs_inventory(candidate)
        return make_plan(
            candidate,
            _figures(candidate, baseline, cards) if asked else Inventory(),
            environ=baseline,
            chosen_by_parent=chosen.get("CUDA_VISIBLE_DEVICES"),
            order_by_parent=chosen.get("CUDA_DEVICE_ORDER"),
        )

    try:
        return make(profile)
    except ShortageError as error:
        if error.wait_s is None:  # otherwise the program waits for the profile's own amount
            from gpuconf.planner.remedies import remedy_for

            ways = [remedy_for(profile, make, environ), error.hint]
            error.hint = "\n        or ".join(filter(None, ways))
        raise


def _figures(profile: Profile, baseline: Mapping[str, str], inventory: Inventory) -> Inventory:
    """Return the machine's GPUs, with this process's own memory and its assigned share."""
    from gpuconf.machine.schedulers import assigned_share, with_share

    assigned = assigned_share(profile, baseline)
    gpus = tuple(gpu.with_own_bytes(os.getpid()) for gpu in inventory.gpus)
    return with_share(inventory._replace(gpus=gpus), assigned)


def reader_for(profile: Profile) -> Callable[[], Inventory]:
    """Return the reader of the figures that ``profile`` needs, including any leases."""
    from gpuconf.machine.cards import read_inventory
    from gpuconf.planner import wants_leases

    if not wants_leases(profile):
        return read_inventory
    from gpuconf.machine.leases.view import read_with_leases

    return read_with_leases


def wait_for_plan(
    plan: Callable[[], Plan],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Plan:
    """Return what ``plan`` returns; retry while it raises a shortage that the profile allows
    waiting for.

    Raises that ShortageError once the time is up.
    """
    started = clock()
    say_next_at = started
    while True:
        try:
            return plan()
        except ShortageError as error:
            if error.wait_s is None:
                raise
            now = clock()
            left_s = started + error.wait_s - now
            if left_s <= 0:
                raise waited_in_vain(error) from None
            if now >= say_next_at:
                say_next_at = now + REPORT_EVERY_S
                say(waiting_line(error, left_s))
        sleep(min(POLL_S, left_s))


def waiting_line(error: ShortageError, left_s: float) -> str:
    """The line that a waiting program prints: how long, for what, and who holds it."""
    from gpuconf.basics.units import short_duration

    time_left = "" if left_s == float("inf") else f" up to {short_duration(round(left_s))}"
    where = error.message.partition("\n")[0]
    return f"waiting{time_left} for memory: {where}" + (
        f"; used or reserved by {error.held_by}" if error.held_by else ""
    )


def waited_in_vain(error: ShortageError) -> ShortageError:
    """The error of a program whose waiting time is over."""
    from gpuconf.basics.units import short_duration

    waited = short_duration(error.wait_s or 0)
    message = f"gave up after {waited}: {error.message}"
    return ShortageError(message, hint=error.hint, shortage=error.shortage)


def environment_for(
    profile: Profile, plan: Plan | None, environ: Mapping[str, str] = os.environ
) -> tuple[dict[str, str], list[Setting]]:
    """Return the variables to set over ``environ``, and the outcome of each; change nothing.

    Without a ``plan``, only those that need no figures.
    """
    baseline = environment.before_gpuconf(environ)
    has_tf_keras = profile.tensorflow.session == "graph" and is_installed("tf_keras")
    wishes = environment_changes(
        profile,
        plan,
        baseline,
        has_tf_keras=has_tf_keras,
        knows_new_jax_name=plan is not None and _jax_reads(NEW_FRACTION),
    )
    changes, settings = environment.settle(wishes, baseline)
    return changes, [*settings, *voided_caps(plan, {**baseline, **changes})]


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
