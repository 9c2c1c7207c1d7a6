"""Which checks to run: ids and the first parts of ids, such as ``driver``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from gpuconf.doctor.checks import CHECKS
from gpuconf.errors import UsageError


def known_checks() -> dict[str, str]:
    """Every check by its id, with what it looks at; those of scripts and of the probe last."""
    from gpuconf.doctor.live import LIVE_CHECKS
    from gpuconf.doctor.source import SOURCE_CHECKS

    return {**{check.id: check.about for check in CHECKS}, **SOURCE_CHECKS, **LIVE_CHECKS}


def selected(ids: Sequence[str], known: Iterable[str]) -> frozenset[str]:
    """The ids among ``known`` that ``ids`` name; all of them where none is named.

    A dash counts as an underscore.  Raises UsageError for a name that matches none.
    """
    known = list(known)
    if not ids:
        return frozenset(known)
    found: set[str] = set()
    for wanted in ids:
        plain = wanted.replace("-", "_")
        named = {each for each in known if f"{each}.".replace("-", "_").startswith(f"{plain}.")}
        if not named:
            raise UsageError(f"there is no check {wanted!r}", hint=_hint(wanted, known))
        found |= named
    return frozenset(found)


def _hint(wanted: str, known: Sequence[str]) -> str:
    if wanted.endswith((".py", ".ipynb")) or os.path.isfile(wanted):
        return f"gpuconf doctor --script {shlex.quote(wanted)}"
    groups = sorted({each.split(".")[0] for each in known})
    ends = {each.partition(".")[2]: each for each in known}
    begun = [each for each in (*groups, *known) if each.startswith(wanted.replace("-", "_"))]
    close = begun or get_close_matches(wanted, [*known, *groups], n=1)
    close = close or [ends[end] for end in get_close_matches(wanted, ends, n=1)]
    meant = f"did you mean `gpuconf doctor {close[0]}`? " if close else ""
    return f"{meant}`gpuconf doctor --list-checks` shows them all"
