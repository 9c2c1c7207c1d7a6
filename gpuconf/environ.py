"""Changes to environment variables: decided as values, applied in one place, known to children.

A child process inherits what gpuconf set in its parent.  To a child those values look like the
user's own, so the parent leaves a note of them (``GPUCONF_STATE``); :func:`before_gpuconf` reads
it and gives the environment as the user made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import NamedTuple

from gpuconf.settings import Setting

STATE_VARIABLE = "GPUCONF_STATE"
# The note is printable, since job schedulers and `env` files carry it on.  A record is
# name,ours,before or, where the variable was unset, name,ours; the sign that escapes comes first.
_ESCAPES = (("%", "%25"), (",", "%2C"), (";", "%3B"))


class Change(NamedTuple):
    """A variable gpuconf would like to set, for the profile key ``setting``.

    A value that the user has set stays, unless ``valid`` lists the only values the framework
    understands and the user's is none of them (TensorFlow ignores
    ``TF_FORCE_GPU_ALLOW_GROWTH=1``), or ``overrules`` says that ``value`` was made by
    narrowing the user's own (``CUDA_VISIBLE_DEVICES``).
    """

    name: str
    value: str
    setting: str
    valid: tuple[str, ...] | None = None
    overrules: bool = False


def switched_off(environ: Mapping[str, str]) -> str | None:
    """What ``GPUCONF_DISABLE`` says where it switches gpuconf off; None where it does not."""
    value = environ.get("GPUCONF_DISABLE", "")
    return None if value in ("", "0") else f"GPUCONF_DISABLE={value}"


def before_gpuconf(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment as it was before gpuconf, in this process or a parent, changed it.

    A variable that somebody changed again since then keeps that newer value.
    """
    baseline = {name: value for name, value in environ.items() if name != STATE_VARIABLE}
    for name, ours, before in _decode(environ.get(STATE_VARIABLE, "")):
        if baseline.get(name) != ours:
            continue
        if before is None:
            del baseline[name]
        else:
            baseline[name] = before
    return baseline


def set_by_gpuconf(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that gpuconf, in this process or a parent, set and nobody changed since."""
    records = _decode(environ.get(STATE_VARIABLE, ""))
    return {name: ours for name, ours, _ in records if environ.get(name) == ours}


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
        if kept and wish.valid is not None and theirs not in wish.valid:
            kept = False
        if not kept:
            changes[wish.name] = wish.value
        settings.append(_fate(wish, theirs, kept=kept))
    return changes, settings


def _fate(wish: Change, theirs: str | None, *, kept: bool) -> Setting:
    if not kept:
        return Setting(wish.name, wish.value, wish.value)
    why = (
        f"{wish.name}={theirs} was set before gpuconf and stays; "
        f"`unset {wish.name}` to let the profile's {wish.setting} decide"
    )
    return Setting(wish.name, wish.value, theirs, why)


def apply(changes: Mapping[str, str], environ: MutableMapping[str, str]) -> None:
    """Make ``environ`` the baseline plus ``changes``, and leave the note for children."""
    baseline = before_gpuconf(environ)
    for name in set_by_gpuconf(environ):
        _restore(name, baseline.get(name), environ)
    records = [(name, value, baseline.get(name)) for name, value in changes.items()]
    environ.update(changes)
    environ[STATE_VARIABLE] = _encode(records)


def put_back(before: Mapping[str, str], environ: MutableMapping[str, str]) -> None:
    """Make ``environ`` what it was when ``before`` was copied from it."""
    for name in {*before, *environ}:
        _restore(name, before.get(name), environ)


def _restore(name: str, value: str | None, environ: MutableMapping[str, str]) -> None:
    if value is None:
        environ.pop(name, None)
    else:
        environ[name] = value


def _encode(records: list[tuple[str, str, str | None]]) -> str:
    return ";".join(
        ",".join(_escape(field) for field in record if field is not None) for record in records
    )


def _decode(text: str) -> list[tuple[str, str, str | None]]:
    records: list[tuple[str, str, str | None]] = []
    for record in text.split(";"):
        fields = [_unescape(field) for field in record.split(",")]
        if len(fields) == 2:
            records.append((fields[0], fields[1], None))
        elif len(fields) == 3:
            records.append((fields[0], fields[1], fields[2]))
    return records


def _escape(text: str) -> str:
    for sign, code in _ESCAPES:
        text = text.replace(sign, code)
    return text


def _unescape(text: str) -> str:
    for sign, code in reversed(_ESCAPES):
        text = text.replace(code, sign)
    return text
