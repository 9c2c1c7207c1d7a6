"""Changes to environment variables: decided as values, applied and undone in one place.

A child process inherits what gpuconf set in its parent.  The parent leaves a note of it (see
:mod:`gpuconf.state_note`); :func:`before_gpuconf` reads the note and gives the environment as the
user made it.
"""

from __future__ import annotations

from gpuconf.errors import UsageError
from gpuconf.records import NamedTuple
from gpuconf.settings import Setting
from gpuconf.state_note import STATE_VARIABLE, SetVariable, StateNote, encode, read_note

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

# The plan of a `gpuconf run`, for the programs in it: gpuconf.run_plan.
RUN_VARIABLE = "GPUCONF_RUN"
# CUDA reads these: which GPUs a process sees.
VISIBILITY = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
# A plan depends on these: where the program changes one, it is made again.  JAX refuses to start
# where both of its fractions are set, so which one is written depends on which one is there.
WATCHED = (
    *VISIBILITY,
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
)
_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")


class Change(NamedTuple):
    """A variable gpuconf would like to set, for the profile key ``setting``.

    A value that the user has set stays, unless ``valid`` lists the only values the framework
    understands and the user's is none of them (TensorFlow ignores
    ``TF_FORCE_GPU_ALLOW_GROWTH=1``), or ``overrules`` says that ``value`` was made by
    narrowing the user's own (``CUDA_VISIBLE_DEVICES``), or ``gives_way`` says to the user why
    theirs does.
    """

    name: str
    value: str
    setting: str
    valid: tuple[str, ...] | None = None
    overrules: bool = False
    gives_way: str | None = None


class Patch(NamedTuple):
    """Variables to change: name -> (the value before, the value after); None is unset."""

    values: Mapping[str, tuple[str | None, str | None]]

    def apply(self, environ: MutableMapping[str, str]) -> None:
        """Set what differs."""
        for name, (_, after) in self.values.items():
            _set(name, after, environ)

    def undo(self, environ: MutableMapping[str, str]) -> None:
        """Put the values before back, also after an :meth:`apply` that was interrupted.

        A variable that somebody else, another thread, has changed meanwhile keeps that value.
        """
        for name, (before, after) in self.values.items():
            if environ.get(name) == after:
                _set(name, before, environ)


def switched_off(environ: Mapping[str, str]) -> str | None:
    """What ``GPUCONF_DISABLE`` says where it switches gpuconf off; None where it does not.

    Raises UsageError for a value that is neither yes nor no.
    """
    value = environ.get("GPUCONF_DISABLE", "")
    word = value.strip().lower()
    if word in _OFF:
        return None
    if word in _ON:
        return f"GPUCONF_DISABLE={value}"
    raise UsageError(
        f"GPUCONF_DISABLE={value[:40]!r} is neither yes nor no; the rule: {', '.join(_ON)} switch "
        f"gpuconf off, {', '.join(_OFF[1:])} or nothing leave it on",
        hint="export GPUCONF_DISABLE=1, or: unset GPUCONF_DISABLE",
    )


def before_gpuconf(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment as it was before gpuconf, in this process or a parent, changed it.

    A variable that somebody changed again since then keeps that newer value.
    """
    # Name by name: another thread may be deleting some.
    values = {name: environ.get(name) for name in list(environ) if name != STATE_VARIABLE}
    baseline = {name: value for name, value in values.items() if value is not None}
    for name, ours, before in _records(environ):
        if baseline.get(name) != ours:
            continue
        if before is None:
            del baseline[name]
        else:
            baseline[name] = before
    return baseline


def set_by_gpuconf(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that gpuconf, in this process or a parent, set and nobody changed since."""
    return {name: ours for name, ours, _ in _records(environ) if environ.get(name) == ours}


def settle(
    wishes: Iterable[Change], baseline: Mapping[str, str]
) -> tuple[dict[str, str], list[Setting]]:
    """Decide which wishes become changes: (variables to set, every wish's fate).

    Pure.  ``baseline`` is the environment as the user made it.
    """
    changes: dict[str, str] = {}
    settings = []
    for wish in wishes:
        theirs = baseline.get(wish.name)
        kept = theirs is not None and not wish.overrules and theirs != wish.value
        if wish.gives_way or (wish.valid is not None and theirs not in wish.valid):
            kept = False
        if not kept:
            changes[wish.name] = wish.value
        settings.append(_fate(wish, theirs, kept=kept))
    return changes, settings


def _fate(wish: Change, theirs: str | None, *, kept: bool) -> Setting:
    if not kept and theirs is not None and wish.gives_way:
        return Setting(wish.name, theirs, wish.value, wish.gives_way)
    if not kept:
        return Setting(wish.name, wish.value, wish.value)
    why = (
        f"{wish.name}={theirs} was set before gpuconf and stays; "
        f"`unset {wish.name}` to let the profile's {wish.setting} decide"
    )
    return Setting(wish.name, wish.value, theirs, why, wish.name)


def patch_for(changes: Mapping[str, str], note: StateNote, environ: Mapping[str, str]) -> Patch:
    """What makes ``environ`` the baseline plus ``changes``, with ``note`` of them for children.

    Pure.  ``note`` says who writes it and why; its records are made here.
    """
    baseline = before_gpuconf(environ)
    after: dict[str, str | None] = {
        name: baseline.get(name) for name in set_by_gpuconf(environ) if name not in changes
    }
    after |= changes
    records = tuple(SetVariable(name, value, baseline.get(name)) for name, value in changes.items())
    after[STATE_VARIABLE] = encode(note._replace(records=records))
    return Patch({name: (environ.get(name), value) for name, value in after.items()})


def _records(environ: Mapping[str, str]) -> tuple[SetVariable, ...]:
    note = read_note(environ)
    return () if note is None else note.records


def _set(name: str, value: str | None, environ: MutableMapping[str, str]) -> None:
    if value is None:
        environ.pop(name, None)
    else:
        environ[name] = value
