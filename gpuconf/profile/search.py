"""Where profiles are found.

A *name* has no slash and no ``.yaml`` at its end; all else is a path, relative to the
directory that the search begins in.  A name is looked up in this order, the first hit rules:

1. the project: the directory itself and the folders above it, up to the root of its
   repository (the folder with ``.git``); without a repository, up to the home folder, which
   does not count itself; and outside of the home folder the directory alone.  In each folder
   ``gpuconf.yaml`` is the profile named ``project``, and ``.gpuconf/NAME.yaml`` the profile
   NAME.  Folder and file must belong to the user or to root, and so must ``.git``, so that
   nobody can plant rules for others in a folder such as /tmp;
2. the user: ``$XDG_CONFIG_HOME/gpuconf/NAME.yaml``, else ``~/.config/gpuconf/NAME.yaml``;
3. the profiles that gpuconf ships.

With no name given: ``$GPUCONF_PROFILE``, else the project's ``gpuconf.yaml`` where there is
one, else ``shared-desktop``.  ``.yml`` is as good as ``.yaml``, which rules if both are there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuconf.errors import ProfileNotFoundError
from gpuconf.profile.nodes import Mark
from gpuconf.profile.problems import nearest, quoted

DEFAULT_PROFILE = "shared-desktop"
PROJECT_PROFILE = "project"
_SUFFIXES = (".yaml", ".yml")
_HERE = os.path.dirname(os.path.abspath(__file__))


class Place(NamedTuple):
    """A folder of profiles; ``origin`` is project, user or shipped.

    ``own_file`` is the path of the project's own profile, without its suffix, or None.
    """

    origin: str
    folder: str
    own_file: str | None = None


class Location(NamedTuple):
    """A profile's file: its name, its path, and where it came from (or ``path``)."""

    name: str
    path: str
    origin: str


class Choice(NamedTuple):
    """The profile that applies, a name or path, and why, for messages."""

    profile: str
    because: str


def places(environ: Mapping[str, str], directory: str | None) -> tuple[Place, ...]:
    """Every folder that is searched, in order; none of them need exist."""
    found = [
        Place("project", os.path.join(folder, ".gpuconf"), os.path.join(folder, "gpuconf"))
        for folder in _project_folders(environ, directory)
    ]
    config = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(config):  # the XDG specification: a relative one is ignored
        home = environ.get("HOME", "")
        config = os.path.join(home, ".config") if os.path.isabs(home) else ""
    if config:
        found.append(Place("user", os.path.join(config, "gpuconf")))
    found.append(Place("shipped", shipped_folder()))
    return tuple(found)


def shipped_folder() -> str:
    """The folder of the shipped profiles: inside the package, or beside it in a checkout."""
    package = os.path.dirname(_HERE)
    inside = os.path.join(package, "configs")
    beside = os.path.join(os.path.dirname(package), "configs")
    if not os.path.isdir(inside) and os.path.isfile(os.path.join(beside, "profile.schema.json")):
        return beside
    return inside


def _project_folders(environ: Mapping[str, str], directory: str | None) -> list[str]:
    try:
        start = os.path.abspath(directory or os.getcwd())
    except OSError:  # the working directory was deleted: there is no project then
        return []
    folders = [start]
    while folders[-1] != os.path.dirname(folders[-1]):
        folders.append(os.path.dirname(folders[-1]))
    for i, folder in enumerate(folders):
        if _is_ours(os.path.join(folder, ".git")):
            return folders[: i + 1]
    home = environ.get("HOME", "").rstrip("/")
    return folders[: folders.index(home)] if home in folders[1:] else [start]


def choose(environ: Mapping[str, str], directory: str | None) -> Choice:
    """What applies where no profile is named in code."""
    if named := environ.get("GPUCONF_PROFILE", "").strip():
        return Choice(named, "GPUCONF_PROFILE names it")
    because = "nothing else is set"
    for place in places(environ, directory):
        for path in _with_suffix(place.own_file) if place.own_file else ():
            if _may_rule(place, path):
                return Choice(path, "it is the project's own file")
            because = f"{path!r} belongs to another user; GPUCONF_PROFILE=PATH takes it"
    return Choice(DEFAULT_PROFILE, because)


def is_path(name: str) -> bool:
    """True where ``name`` is a path rather than a profile's name."""
    return "/" in name or os.sep in name or name.endswith(_SUFFIXES) or name in ("", ".", "..")


def candidates(name: str, searched: tuple[Place, ...]) -> Iterator[Location]:
    """The files that the profile ``name`` may be, the one that rules first."""
    if is_path(name) or "\x00" in name:
        return
    for place in searched:
        if name == PROJECT_PROFILE and place.own_file is not None:
            yield from _locations(place, name, place.own_file)
        yield from _locations(place, name, os.path.join(place.folder, name))


def _locations(place: Place, name: str, stem: str) -> list[Location]:
    paths = [path for path in _with_suffix(stem) if _may_rule(place, path)]
    return [Location(name, path, place.origin) for path in paths]


def _with_suffix(stem: str) -> list[str]:
    # lexists: a broken link or a folder of that name is a mistake to be told, not passed over.
    return [stem + suffix for suffix in _SUFFIXES if os.path.lexists(stem + suffix)]


def _may_rule(place: Place, path: str) -> bool:
    """False for a file in the project's tree that somebody else may have put there."""
    if place.own_file is None:
        return True
    return all(map(_is_ours, (os.path.dirname(place.own_file), os.path.dirname(path), path)))


def _is_ours(path: str) -> bool:
    """True where ``path`` is there and belongs to this user or to root.

    /tmp is root's own, so the file counts as well as its folder; a link counts as itself.
    """
    try:
        return os.lstat(path).st_uid in (0, os.getuid())
    except (OSError, ValueError):  # ValueError: no file's name, such as one with NUL
        return False


def locate_path(path: str, folder: str | None, home: str | None = None) -> Location:
    """The profile at ``path``, relative to ``folder``; the file need not exist."""
    if home and path.startswith("~/"):
        path = os.path.join(home, path[2:])
    full = os.path.join(folder, path) if folder else path
    stem = os.path.splitext(os.path.basename(full))[0]
    return Location(PROJECT_PROFILE if stem == "gpuconf" else stem, full, "path")


def all_locations(searched: tuple[Place, ...]) -> list[Location]:
    """Every profile that is there, the ones that rule before those they shadow."""
    found = []
    for place in searched:
        if place.own_file is not None:
            found += _locations(place, PROJECT_PROFILE, place.own_file)
        try:
            names = sorted(os.listdir(place.folder))
        except OSError:
            continue
        for name in names:
            stem, suffix = os.path.splitext(name)
            path = os.path.join(place.folder, name)
            if suffix in _SUFFIXES and not name.startswith(".") and _may_rule(place, path):
                found.append(Location(stem, path, place.origin))
    return found


def not_found(
    name: str, searched: tuple[Place, ...], mark: Mark, because: str = ""
) -> ProfileNotFoundError:
    """The error for a name that no place has, with the nearest name that one has."""
    names = sorted({location.name for location in all_locations(searched)})
    meant = nearest(name, names)
    if not names:
        hint = "gpuconf's own profiles are missing; reinstall it: pip install --force gpuconf"
    elif meant:
        hint = f"did you mean {meant}? all of them: gpuconf profiles list"
    else:
        hint = f"there are {', '.join(names[:12])}; see: gpuconf profiles list"
    return ProfileNotFoundError(
        f"there is no profile named {quoted(name)}" + (f"; {because}" if because else ""),
        hint=hint,
        file=mark.file,
        line=mark.line,
        column=mark.column,
    )
