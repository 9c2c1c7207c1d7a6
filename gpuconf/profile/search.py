"""Where profiles are found, and which one applies.

docs/profiles.md describes the order, and the folders in which a name is looked up. A *name* has no
slash and does not end in ``.yaml``; everything else is a path, relative to the directory where the
search starts. ``project`` and ``user`` are the names of the two ``gpuconf.yaml`` files. ``.yml``
also works; if both exist, ``.yaml`` is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuconf.basics.state_note import read_note
from gpuconf.basics.terminal import printable
from gpuconf.errors import ProfileNotFoundError
from gpuconf.profile.files import missing_shipped_hint, shipped_folder
from gpuconf.profile.folders import project_folders, user_folder
from gpuconf.profile.nodes import Mark

DEFAULT_PROFILE = "shared-desktop"
BY_PARENT = "the parent process chose it"
_SUFFIXES = (".yaml", ".yml")
_OWN_FILE = "gpuconf"


class ProfileFolder(NamedTuple):
    """A folder of profiles; ``origin`` is project, user or shipped.

    ``own_file`` is the path of the project's or the user's own profile without its suffix, or None.
    That profile is named after the origin.
    """

    origin: str
    folder: str
    own_file: str | None = None


class Location(NamedTuple):
    """The name, path and origin of a profile's file.

    ``origin`` is project, user or shipped, or path if the file was given by its path.
    """

    name: str
    path: str
    origin: str


class ProfileChoice(NamedTuple):
    """The name or path of the profile that applies, and the reason, for messages.

    ``location`` is its file if that is known without looking up a name.
    """

    profile: str
    because: str
    location: Location | None = None


class ParentChoice(NamedTuple):
    """The parent process's choice: a name if ``origin`` is shipped, otherwise an absolute path.

    ``origin`` is shipped, user, project or path, as in a Location.
    """

    profile: str
    origin: str


def places(
    environ: Mapping[str, str], directory: str | None, script_folder: str | None = None
) -> tuple[ProfileFolder, ...]:
    """Return every folder to search, in order; they may not exist."""
    found = [
        ProfileFolder("project", os.path.join(folder, ".gpuconf"), os.path.join(folder, "gpuconf"))
        for folder in project_folders(environ, directory, script_folder)
    ]
    config = user_folder(environ, "XDG_CONFIG_HOME", ".config")
    if config is not None:
        found.append(ProfileFolder("user", config, os.path.join(config, "gpuconf")))
    found.append(ProfileFolder("shipped", shipped_folder()))
    return tuple(found)


def choose(environ: Mapping[str, str], searched: tuple[ProfileFolder, ...]) -> ProfileChoice:
    """Choose the profile if code does not name one.

    A GPUCONF_PROFILE inherited unchanged from the parent process was not set for this process, so
    the parent's choice, from its note in ``environ``, applies.
    """
    named = environ.get("GPUCONF_PROFILE", "").strip()
    note = read_note(environ)
    parent = None
    if note is not None and note.profile:
        parent = ParentChoice(note.profile, note.origin)
        named = "" if named == note.asked.strip() else named
    if named:
        return ProfileChoice(named, "GPUCONF_PROFILE names it")
    if parent is not None:
        return ProfileChoice(parent.profile, BY_PARENT, _chosen_by_parent(parent))
    for place in searched:
        for path in _with_suffix(place.own_file) if place.own_file else ():
            whose = "the project's" if place.origin == "project" else "your"
            location = Location(place.origin, path, place.origin)
            return ProfileChoice(path, f"it is {whose} own file", location)
    return ProfileChoice(DEFAULT_PROFILE, "nothing else is set")


def _chosen_by_parent(parent: ParentChoice) -> Location | None:
    """Return the file that the parent chose, with the parent's origin; None for a name."""
    if parent.origin == "shipped":
        return None
    origin = parent.origin if parent.origin in ("user", "path") else "project"
    return locate_path(parent.profile, None)._replace(
        origin=origin, name=_name_of(parent.profile, origin)
    )


def is_path(name: str) -> bool:
    """Whether ``name`` is a path rather than a profile's name."""
    return "/" in name or os.sep in name or name.endswith(_SUFFIXES) or name in ("", ".", "..")


def candidates(name: str, searched: tuple[ProfileFolder, ...]) -> Iterator[Location]:
    """Yield the files that the profile ``name`` may refer to, in order of precedence."""
    if is_path(name) or "\x00" in name:
        return
    for place in searched:
        if name == place.origin and place.own_file is not None:
            yield from _locations(place, name, place.own_file)
        if place.origin != "user" or name != _OWN_FILE:
            yield from _locations(place, name, os.path.join(place.folder, name))


def _locations(place: ProfileFolder, name: str, stem: str) -> list[Location]:
    return [Location(name, path, place.origin) for path in _with_suffix(stem)]


def _with_suffix(stem: str) -> list[str]:
    # lexists: report a broken link or a folder of that name as an error instead of skipping it.
    return [stem + suffix for suffix in _SUFFIXES if os.path.lexists(stem + suffix)]


def _name_of(path: str, origin: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    if stem != _OWN_FILE:
        return stem
    return "user" if origin == "user" else "project"


def locate_path(path: str, folder: str | None, home: str | None = None) -> Location:
    """Return the profile at ``path``, relative to ``folder``; the file may not exist."""
    if home and path.startswith("~/"):
        path = os.path.join(home, path[2:])
    full = os.path.join(folder, path) if folder else path
    return Location(_name_of(full, "path"), full, "path")


def is_users_own(path: str, searched: tuple[ProfileFolder, ...]) -> bool:
    """Whether ``path`` is in the user's own profile folder."""
    folder = os.path.dirname(os.path.abspath(path))
    return any(place.origin == "user" and place.folder == folder for place in searched)


def absolute_path(
    named: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
) -> str | None:
    """Return the absolute path for a value of ``$GPUCONF_PROFILE``, relative to ``directory``.

    None for a name, or if the working directory was deleted.
    """
    named = named.strip()
    if not named or not is_path(named):
        return None
    folder = None if directory is None else os.fspath(directory)
    try:
        return os.path.abspath(locate_path(named, folder, environ.get("HOME")).path)
    except OSError:
        return None


def all_locations(searched: tuple[ProfileFolder, ...]) -> list[Location]:
    """List all profiles, each before those that it shadows."""
    found = []
    for place in searched:
        if place.own_file is not None:
            found += _locations(place, place.origin, place.own_file)
        for name in _listed(place):
            stem, suffix = os.path.splitext(name)
            path = os.path.join(place.folder, name)
            is_own = os.path.join(place.folder, stem) == place.own_file
            if suffix in _SUFFIXES and not name.startswith(".") and not is_own:
                found.append(Location(stem, path, place.origin))
    return found


def _listed(place: ProfileFolder) -> list[str]:
    try:
        return sorted(os.listdir(place.folder))
    except OSError:
        return []


def not_found(
    name: str,
    searched: tuple[ProfileFolder, ...],
    *,
    mark: Mark | None = None,
    because: str = "",
) -> ProfileNotFoundError:
    """Build the error for an unknown name, with the most similar known name."""
    from gpuconf.profile.problems import nearest, quoted  # a valid profile needs neither

    found = all_locations(searched)
    names = sorted({printable(location.name) for location in found})
    meant = nearest(name, names)
    if all(location.origin != "shipped" for location in found):
        hint = f"gpuconf's own profiles are missing: {missing_shipped_hint()}"
    elif meant:
        hint = f"did you mean {meant}? all of them: gpuconf profiles list"
    else:
        hint = f"available: {', '.join(names[:12])}; see: gpuconf profiles list"
    return ProfileNotFoundError(
        f"there is no profile named {quoted(name)}" + (f"; {because}" if because else ""),
        hint=hint,
        file=mark.file if mark else None,
        line=mark.line if mark else None,
        column=mark.column if mark else None,
    )
