"""The scripts and notebooks that a command line names: files, and all files in folders."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator

from gpuconf.commands.doctor.source.text import check_script_path
from gpuconf.errors import UsageError

_ENDINGS = (".py", ".ipynb")
# Installed or built files; hidden folders (.git, .venv, .tox) are also skipped.
_NOT_ENTERED = {"__pycache__", "build", "dist", "node_modules", "site-packages"}
_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")


def scripts_in(paths: Iterable[str]) -> tuple[str, ...]:
    """The files that ``paths`` name, without duplicates; those in a folder, sorted by name.

    Raises UsageError for a path that is neither a file nor a folder with scripts.
    """
    found: dict[str, str] = {}
    for path in paths:
        for file in _below(path) if os.path.isdir(path) else [path]:
            check_script_path(file)
            found.setdefault(os.path.abspath(file), file)
    return tuple(found.values())


def _below(folder: str) -> list[str]:
    files = list(_walk(folder))
    if not files:
        hint = f"find {shlex.quote(folder)} -name '*.py' -o -name '*.ipynb'"
        raise UsageError(f"--script {folder}: there is no script or notebook in it", hint=hint)
    return files


def _walk(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if _is_entered(here, each))
        for name in sorted(names):
            path = os.path.join(here, name)
            if name.endswith(_ENDINGS) and not name.startswith(".") and os.path.isfile(path):
                yield os.path.normpath(path)


def _is_entered(folder: str, name: str) -> bool:
    """Whether a folder may contain the project's scripts: no if installed, built or hidden."""
    path = os.path.join(folder, name)
    is_environment = any(os.path.exists(os.path.join(path, each)) for each in _OF_ENVIRONMENTS)
    return not (name.startswith(".") or name in _NOT_ENTERED or is_environment)
