"""The user's own shell under a plan: which shell, and which startup file it reads.

A shell's startup files may overwrite the variables that carry the plan (``PYTHONPATH`` above all)
and so silently lose the plan. Each known shell therefore reads one of gpuconf's files after them
(``startup/``). This file sets the variables again, checks before each prompt that they are
unchanged, and marks the prompt. Those files are part of the package, and the values travel in
``_GPUCONF_PLAN``, so there is nothing to clean up.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gpuconf.basics.environment import RUN_VARIABLE, WATCHED, set_by_gpuconf
from gpuconf.basics.state_note import STATE_VARIABLE
from gpuconf.session import run_variable

# For prompts that show it in their own way, as they do with VIRTUAL_ENV_PROMPT.
NAME_VARIABLE = "GPUCONF_SHELL"
_PLAN_VARIABLE = "_GPUCONF_PLAN"
_STARTUP = Path(__file__).parent / "startup"
_LOST = (
    "gpuconf: PYTHONPATH had been set without the plan's folder, which is now first again; "
    "programs started in between have no limit"
)


class _Kind(NamedTuple):
    """How shells of one kind are started: arguments after the program, and a variable to set.

    ``startup`` is that variable, and ``saved`` the one that keeps the user's own value for it.
    """

    words: tuple[str, ...]
    startup: tuple[str, str] | None = None
    saved: str = ""


_POSIX = _Kind(("-i",), ("ENV", str(_STARTUP / "posix.rc")), "_GPUCONF_ENV")
_KINDS = {
    "bash": _Kind(("--rcfile", str(_STARTUP / "bash.rc"), "-i")),
    "zsh": _Kind(("-i",), ("ZDOTDIR", str(_STARTUP / "zsh")), "_GPUCONF_ZDOTDIR"),
    "fish": _Kind(("-i", "-C", f"source {shlex.quote(str(_STARTUP / 'fish.rc'))}")),
    **dict.fromkeys(("sh", "dash", "ash", "ksh", "ksh93", "mksh"), _POSIX),
}


def choose_shell(asked: str | None, environ: Mapping[str, str], parent: str | None) -> str:
    """Return the shell to start: ``asked``, else $SHELL, else ``parent`` if it is a shell."""
    known = parent if parent is not None and _kind_of(parent) is not None else None
    return asked or environ.get("SHELL") or known or "/bin/sh"


def parent_program() -> str | None:
    """The executable of the program that started this process; None if it cannot be read."""
    with suppress(OSError):
        return os.readlink(f"/proc/{os.getppid()}/exe")
    return None


def _kind_of(path: str) -> _Kind | None:
    return _KINDS.get(os.path.basename(path))


def words_of(path: str) -> list[str]:
    """Return the command that starts the shell at ``path``."""
    kind = _kind_of(path)
    return [path, *(kind.words if kind is not None else ())]


def warning_for(path: str) -> str | None:
    """Return a warning for users of a shell that gpuconf does not know."""
    if _kind_of(path) is not None:
        return None
    name = os.path.basename(path)
    return (
        f"gpuconf does not support {name}: one of its startup files that sets PYTHONPATH would "
        "remove the plan"
    )


def variables_for(path: str, site: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set for the shell at ``path``, in addition to ``environ``.

    ``environ`` carries the plan; without a plan, the shell starts as usual.  ``site`` is the folder
    that must be first on PYTHONPATH.
    """
    kind = _kind_of(path)
    variables: dict[str, str] = {}
    if kind is not None and kind.startup is not None:
        name, ours = kind.startup
        variables = {name: ours, **({kind.saved: environ[name]} if environ.get(name) else {})}
    run = run_variable.read(environ)
    if run is not None:
        variables[NAME_VARIABLE] = run.profile.name
        if kind is not None:
            is_fish = os.path.basename(path) == "fish"
            plan = plan_in_shell(_carriers(environ), run.profile.name, site, is_fish=is_fish)
            variables[_PLAN_VARIABLE] = plan
    return variables


def _carriers(environ: Mapping[str, str]) -> dict[str, str | None]:
    """The variables to restore after the startup files; None means unset.  PYTHONPATH may grow."""
    names = {RUN_VARIABLE, STATE_VARIABLE, *WATCHED, *set_by_gpuconf(environ)}
    return {name: environ.get(name) for name in sorted(names)}


def _own(name: str, site: str) -> dict[str, str]:
    """Variables in gpuconf's startup file, which are not exported."""
    mark = re.sub(r"[^\w. -]", "", name) or "gpuconf"  # a prompt expands \, $, ` and %
    return {"_gpuconf_site": site, "_gpuconf_mark": f"({mark}) ", "_gpuconf_lost": _LOST}


def plan_in_shell(
    carriers: Mapping[str, str | None], name: str, site: str, *, is_fish: bool
) -> str:
    """Shell code that sets the plan again: for fish, or for a shell of the Bourne family."""
    quoted = _fish_quoted if is_fish else shlex.quote
    own, kept = ("set -g {} {}", "set -gx {} {}") if is_fish else ("{}={}", "export {}={}")
    lines = [own.format(key, quoted(value)) for key, value in _own(name, site).items()]
    for key, value in carriers.items():
        removed = f"set -e {key}" if is_fish else f"unset {key}"
        lines.append(removed if value is None else kept.format(key, quoted(value)))
    return "\n".join(lines)


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
