"""Changes to environment variables: computed as values, applied and undone in one place.

A child process inherits what gpuconf set in its parent. The parent records this in a note (see
:mod:`gpuconf.basics.state_note`); :func:`before_gpuconf` reads the note and returns the environment
as the user set it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import NamedTuple

from gpuconf.basics.setting import Setting
from gpuconf.basics.state_note import STATE_VARIABLE, SetVariable, StateNote, encode, read_note
from gpuconf.errors import UsageError

# Passes the plan of a `gpuconf run` to the programs in it; see gpuconf.session.run_variable.
RUN_VARIABLE = "GPUCONF_RUN"
# Set where a program's own memory is measured: no framework allocates what the profile reserves.
NO_RESERVE_VARIABLE = "GPUCONF_NO_RESERVE"
# CUDA reads these to decide which GPUs a process sees.
VISIBILITY = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
# A plan depends on these; if the program changes one, the plan is made again.  JAX refuses to start
# if both of its fractions are set, so the one we write depends on which one is already set.
WATCHED = (*VISIBILITY, "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")


class Change(NamedTuple):
    """A variable that gpuconf wants to set for the profile key ``setting``.

    A value set by the user stays, with three exceptions: ``valid`` lists the only values that the
    framework understands, and the user's is not among them (TensorFlow ignores
    ``TF_FORCE_GPU_ALLOW_GROWTH=1``); ``overrules`` says that ``value`` is a subset of the user's
    value (``CUDA_VISIBLE_DEVICES``); or ``gives_way`` holds the reason, shown to the user, for
    replacing their value.
    """

    name: str
    value: str
    setting: str
    valid: tuple[str, ...] | None = None
    overrules: bool = False
    gives_way: str | None = None


class Patch(NamedTuple):
    """Variables to change: name -> (value before, value after); None means unset."""

    values: Mapping[str, tuple[str | None, str | None]]

    def apply(self, environ: MutableMapping[str, str]) -> None:
        """Set the new values."""
        for name, (_, after) in self.values.items():
            _set(name, after, environ)

    def undo(self, environ: MutableMapping[str, str]) -> None:
        """Restore the previous values, even after an interrupted :meth:`apply`.

        A variable that something else, such as another thread, has changed in the meantime keeps
        its new value.
        """
        for name, (before, after) in self.values.items():
            if environ.get(name) == after:
                _set(name, before, environ)


def switched_off(environ: Mapping[str, str]) -> str | None:
    """Return the ``GPUCONF_DISABLE`` setting that switches gpuconf off; None if gpuconf is on.

    Raises UsageError for a value that is neither yes nor no.
    """
    is_off = is_yes("GPUCONF_DISABLE", environ)
    return f"GPUCONF_DISABLE={environ['GPUCONF_DISABLE']}" if is_off else None


def is_yes(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a gpuconf variable is set to yes; unset and empty count as no.

    Raises UsageError for a value that is neither yes nor no.
    """
    value = environ.get(name, "")
    word = value.strip().lower()
    if word not in _YES and word not in _NO:
        raise UsageError(
            f"invalid value {name}={value[:40]!r}: {', '.join(_YES)} mean yes; "
            f"{', '.join(_NO[1:])}, or an empty value means no",
            hint=f"export {name}=1",
        )
    return word in _YES


def before_gpuconf(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment as it was before gpuconf changed it, in this process or a parent.

    A variable that was changed again since then keeps the newer value.
    """
    # Read one name at a time: another thread may be deleting some.
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
    """Return the variables that gpuconf set, here or in a parent, that are still unchanged."""
    return {name: ours for name, ours, _ in _records(environ) if environ.get(name) == ours}


def settle(
    wishes: Iterable[Change], baseline: Mapping[str, str]
) -> tuple[dict[str, str], list[Setting]]:
    """Decide which wishes become changes: (variables to set, the outcome of every wish).

    Pure.  ``baseline`` is the environment as the user set it.
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
        settings.append(_outcome(wish, theirs, kept=kept))
    return changes, settings


def _outcome(wish: Change, theirs: str | None, *, kept: bool) -> Setting:
    if not kept and theirs is not None and wish.gives_way:
        return Setting(wish.name, theirs, wish.value, wish.gives_way)
    if not kept:
        return Setting(wish.name, wish.value, wish.value)
    why = (
        f"keeping {wish.name}={theirs} from your environment, which overrides the profile's "
        f"{wish.setting}; `unset {wish.name}` to use the profile's value"
    )
    return Setting(wish.name, wish.value, theirs, why, wish.name)


def patch_for(changes: Mapping[str, str], note: StateNote, environ: Mapping[str, str]) -> Patch:
    """Return the patch that turns ``environ`` into the baseline plus ``changes``, with a note about
    them.

    Pure.  ``note`` says who writes it and why, for child processes; its records are filled in here.
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
