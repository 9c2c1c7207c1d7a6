"""Whose a file is: somebody else who may write it may also say what stands in it."""

from __future__ import annotations

import os

_ROOT = 0


def owner_of(path: str, *, follow_links: bool = True) -> int | None:
    """The user id of the owner of ``path``; None where nothing is there."""
    try:
        return os.stat(path, follow_symlinks=follow_links).st_uid
    except (OSError, ValueError):  # ValueError: no file's name, such as one with NUL
        return None


def foreign_owner(path: str) -> int | None:
    """Who owns the file, its folder or what it links to, if neither this user nor root; or None.

    Whoever owns the folder of a link's target can put another file there.
    """
    folders = [os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))]
    if os.path.basename(folders[0]) == ".gpuconf":
        folders.append(os.path.dirname(folders[0]))
    owners = [owner_of(path, follow_links=False), owner_of(path), *map(owner_of, folders)]
    return next((uid for uid in owners if uid not in (None, _ROOT, os.getuid())), None)


def may_bound_search(owner: int | None, *, start_owner: int | None, user: int) -> bool:
    """Whether a ``.git`` of that owner makes its folder the root of the repository.

    The owner of the folder that the search begins in counts: in a container, root works in a
    mounted repository of uid 1000.  Somebody else's does not: a ``.git`` that was planted in
    /tmp must not make the search in /tmp/mine go up to /tmp.
    """
    return owner is not None and owner in (_ROOT, user, start_owner)
