"""The folders that profiles are looked for in: the project's, and the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpuconf.profile.owners import may_bound_search, owner_of


def project_folders(
    environ: Mapping[str, str], directory: str | None, script_folder: str | None
) -> list[str]:
    """The script's folder and those above it, then the directory's; each folder once."""
    found: dict[str, str] = {}
    for start in (script_folder, directory or _working_directory()):
        for folder in _upwards(start, environ) if start else ():
            found.setdefault(os.path.realpath(folder), folder)
    return list(found.values())


def user_folder(environ: Mapping[str, str], variable: str, otherwise: str) -> str | None:
    """``gpuconf`` below the XDG folder that ``variable`` names, else below ``~/otherwise``."""
    folder = environ.get(variable, "")
    if not os.path.isabs(folder):  # the XDG specification: a relative one is ignored
        home = environ.get("HOME", "")
        folder = os.path.join(home, otherwise) if os.path.isabs(home) else ""
    return os.path.join(folder, "gpuconf") if folder else None


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted: there is no project then
        return None


def _upwards(start: str, environ: Mapping[str, str]) -> list[str]:
    """``start`` and the folders above it, as far as they belong to the project."""
    try:
        folders = [os.path.abspath(start)]
    except OSError:
        return []
    while folders[-1] != os.path.dirname(folders[-1]):
        folders.append(os.path.dirname(folders[-1]))
    start_owner = owner_of(folders[0])
    for i, folder in enumerate(folders):
        owner = owner_of(os.path.join(folder, ".git"), follow_links=False)
        if may_bound_search(owner, start_owner=start_owner, user=os.getuid()):
            return folders[: i + 1]
    # A home that is a link: os.getcwd() gives the real path, $HOME the other one.
    home = os.path.realpath(environ.get("HOME") or "/")
    for i, folder in enumerate(folders[1:-1], start=1):
        if os.path.realpath(folder) == home:
            return folders[:i]
    return folders[:1]
