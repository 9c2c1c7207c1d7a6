"""The user's own shell under a plan: which shell, and which startup file it reads.

A shell's startup files may overwrite the variables that carry the plan (``PYTHONPATH`` above all)
and so silently lose it.  Each known shell therefore reads a file of ours after them (``startup/``).
It sets the variables again, checks before each prompt that they are unchanged, and marks the
prompt.  Those files are part of the package, and the values travel in ``_GPUCONF_PLAN``, so there
is nothing to clean up.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
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
    "gpuconf: PYTHONPATH had been set without the plan's folder, which is first again now; "
    "programs started in between have no limit"
)


class _Kind(NamedTuple):
    """How shells of one kind are started: arguments after the program, and variables to set."""

    words: tuple[str, ...]
    variables: Callable[[Mapping[str, str]], dict[str, str]]


def _no_variables(_environ: Mapping[str, str]) -> dict[str, str]:
    return {}


def _zsh_variables(environ: Mapping[str, str]) -> dict[str, str]:
    own = environ.get("ZDOTDIR")
    return {"ZDOTDIR": str(_STARTUP / "zsh"), **({"_GPUCONF_ZDOTDIR": own} if own else {})}


def _posix_variables(environ: Mapping[str, str]) -> dict[str, str]:
    own = environ.get("ENV")
    return {"ENV": str(_STARTUP / "posix.rc"), **({"_GPUCONF_ENV": own} if own else {})}


_FISH = f"source {shlex.quote(str(_STARTUP / 'fish.rc'))}"
_POSIX = _Kind(("-i",), _posix_variables)
_KINDS = {
    "bash": _Kind(("--rcfile", str(_STARTUP / "bash.rc"), "-i"), _no_variables),
    "zsh": _Kind(("-i",), _zsh_variables),
    "fish": _Kind(("-i", "-C", _FISH), _no_variables),
    **dict.fromkeys(("sh", "dash", "ash", "ksh", "ksh93", "mksh"), _POSIX),
}  # fmt: skip


def choose_shell(asked: str | None, environ: Mapping[str, str], parent: str | None) -> str:
    """Return the shell to start: ``asked``, else $SHELL, else ``parent`` if it is a shell."""
    known = parent if parent is not None and _kind_of(parent) is not None else None
    return asked or environ.get("SHELL") or known or "/bin/sh"


def parent_program() -> str | None:
    """The file of the program that started this process; None if it cannot be read."""
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
    """Return a warning for users of a shell that is not known here."""
    if _kind_of(path) is not None:
        return None
    name = os.path.basename(path)
    return (
        f"{name} is not known here: a startup file of it that sets PYTHONPATH takes the plan away"
    )


def variables_for(path: str, site: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables to set for the shell at ``path``, in addition to ``environ``.

    ``environ`` carries the plan; without a plan the shell starts as usual.  ``site`` is the folder
    that must be first on PYTHONPATH.
    """
    kind = _kind_of(path)
    run = run_variable.read(environ)
    if run is None:
        return {} if kind is None else kind.variables(environ)
    name = run.profile.name
    variables = {NAME_VARIABLE: name}
    if kind is not None:
        quoted = plan_in_fish if os.path.basename(path) == "fish" else plan_in_posix
        variables |= {_PLAN_VARIABLE: quoted(_carriers(environ), name, site)}
        variables |= kind.variables(environ)
    return variables


def _carriers(environ: Mapping[str, str]) -> dict[str, str | None]:
    """The variables to restore after the startup files; None means unset.  PYTHONPATH may grow."""
    names = {RUN_VARIABLE, STATE_VARIABLE, *WATCHED, *set_by_gpuconf(environ)}
    return {name: environ.get(name) for name in sorted(names)}


def _own(name: str, site: str) -> dict[str, str]:
    """Variables of our startup file, which are not exported."""
    mark = re.sub(r"[^\w. -]", "", name) or "gpuconf"  # a prompt expands \, $, ` and %
    return {"_gpuconf_site": site, "_gpuconf_mark": f"({mark}) ", "_gpuconf_lost": _LOST}


def plan_in_posix(carriers: Mapping[str, str | None], name: str, site: str) -> str:
    """Shell code that sets the plan again in a shell of the Bourne family."""
    lines = [f"{key}={shlex.quote(value)}" for key, value in _own(name, site).items()]
    for key, kept in carriers.items():
        lines.append(f"unset {key}" if kept is None else f"export {key}={shlex.quote(kept)}")
    return "\n".join(lines)


def plan_in_fish(carriers: Mapping[str, str | None], name: str, site: str) -> str:
    """Shell code that sets the plan again in fish."""
    lines = [f"set -g {key} {_fish_quoted(value)}" for key, value in _own(name, site).items()]
    for key, kept in carriers.items():
        lines.append(f"set -e {key}" if kept is None else f"set -gx {key} {_fish_quoted(kept)}")
    return "\n".join(lines)


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
