"""The folders that are searched for profiles, and who owns them.

Anyone who can write a file decides its contents, so ownership is checked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpuconf.basics.processes import own_user

_ROOT = 0


def project_folders(
    environ: Mapping[str, str], directory: str | None, script_folder: str | None
) -> list[str]:
    """Return the script's folder and its parents, then those of ``directory``, each only once."""
    found: dict[str, str] = {}
    for start in (script_folder, directory or _working_directory()):
        for folder in _upwards(start, environ) if start else ():
            found.setdefault(os.path.realpath(folder), folder)
    return list(found.values())


def user_folder(environ: Mapping[str, str], variable: str, otherwise: str) -> str | None:
    """Return ``gpuconf`` in the XDG folder that ``variable`` names, or else in ``~/otherwise``."""
    folder = environ.get(variable, "")
    if not os.path.isabs(folder):  # the XDG specification says to ignore a relative one
        home = _home(environ)
        folder = os.path.join(home, otherwise) if os.path.isabs(home) else ""
    return os.path.join(folder, "gpuconf") if folder else None


def _home(environ: Mapping[str, str]) -> str:
    """Return the home folder, which Windows names in another variable."""
    return environ.get("HOME") or environ.get("USERPROFILE", "")


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was deleted, so there is no project
        return None


def _upwards(start: str, environ: Mapping[str, str]) -> list[str]:
    """Return ``start`` and those of its parent folders that belong to the project."""
    try:
        folders = [os.path.abspath(start)]
    except OSError:
        return []
    while folders[-1] != os.path.dirname(folders[-1]):
        folders.append(os.path.dirname(folders[-1]))
    start_owner = owner_of(folders[0])
    for i, folder in enumerate(folders):
        owner = owner_of(os.path.join(folder, ".git"), follow_links=False)
        if may_bound_search(owner, start_owner=start_owner, user=own_user()):
            return folders[: i + 1]
    # The home folder may be a link: os.getcwd() returns the real path, $HOME the link.
    home = os.path.realpath(_home(environ) or "/")
    for i, folder in enumerate(folders[1:-1], start=1):
        if os.path.realpath(folder) == home:
            return folders[:i]
    return folders[:1]


def owner_of(path: str, *, follow_links: bool = True) -> int | None:
    """Return the user id of the owner of ``path``; None if it does not exist."""
    try:
        return os.stat(path, follow_symlinks=follow_links).st_uid
    except (OSError, ValueError):  # ValueError: not a valid file name, for example one with NUL
        return None


def foreign_owner(path: str) -> int | None:
    """Return another user who owns the file, its folder or its link target; None if there is none.

    This user and root do not count as other users. The owner of the folder of a link's target can
    put another file there.
    """
    folders = [os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))]
    if os.path.basename(folders[0]) == ".gpuconf":
        folders.append(os.path.dirname(folders[0]))
    owners = [owner_of(path, follow_links=False), owner_of(path), *map(owner_of, folders)]
    return next((uid for uid in owners if uid not in (None, _ROOT, own_user())), None)


def may_bound_search(owner: int | None, *, start_owner: int | None, user: int) -> bool:
    """Whether a ``.git`` with that owner marks its folder as the root of the repository.

    The owner of the folder where the search starts is accepted: in a container, root works in a
    mounted repository owned by uid 1000. A ``.git`` planted in /tmp must not extend a search to it.
    """
    return owner is not None and owner in (_ROOT, user, start_owner)
