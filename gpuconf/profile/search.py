"""Where profiles are found, and which one applies.

A *name* has no slash and no ``.yaml`` at its end; all else is a path, relative to the
directory that the search begins in.  The order of choice:

1. an argument, or ``$GPUCONF_PROFILE``;
2. what the parent process has chosen;
3. the project's ``gpuconf.yaml``: from the main script's folder upwards, then from the working
   directory upwards, each time up to the root of the repository (the folder with ``.git``, see
   ``folders``); without a repository, up to the home folder, which does not count itself; and
   outside of the home folder that folder alone;
4. the user's ``$XDG_CONFIG_HOME/gpuconf/gpuconf.yaml``, else ``~/.config/gpuconf/gpuconf.yaml``;
5. ``shared-desktop``.

A name is looked up in the same folders: ``.gpuconf/NAME.yaml`` in the project's, ``NAME.yaml`` in
the user's, then among the shipped ones.  ``project`` and ``user`` are the names of the two
``gpuconf.yaml``.  ``.yml`` is as good as ``.yaml``, which rules if both are there.
"""

from __future__ import annotations

import os

from gpuconf.errors import ProfileNotFoundError
from gpuconf.profile.files import (
    is_shipped,
    missing_shipped_hint,
    shipped_files,
    shipped_folder,
)
from gpuconf.profile.folders import project_folders, user_folder
from gpuconf.records import NamedTuple
from gpuconf.state_note import read_note
from gpuconf.terminal import printable

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuconf.profile.nodes import Mark

DEFAULT_PROFILE = "shared-desktop"
BY_PARENT = "the parent process chose it"
_SUFFIXES = (".yaml", ".yml")
_OWN_FILE = "gpuconf"


class ProfileFolder(NamedTuple):
    """A folder of profiles; ``origin`` is project, user or shipped.

    ``own_file`` is the path of the project's or the user's own profile, without its suffix, or
    None.  That profile's name is the origin.
    """

    origin: str
    folder: str
    own_file: str | None = None


class Location(NamedTuple):
    """A profile's file, its name and path.

    ``origin`` is project, user or shipped, or path where it was given by its path.
    """

    name: str
    path: str
    origin: str


class ProfileChoice(NamedTuple):
    """The profile that applies, a name or path, and why, for messages.

    ``location`` is its file where that is known without looking for a name.
    """

    profile: str
    because: str
    location: Location | None = None


class ParentChoice(NamedTuple):
    """What the parent process chose: a name where ``origin`` is shipped, else an absolute path.

    ``origin`` is shipped, user, project or path, as in a Location.
    """

    profile: str
    origin: str


def places(
    environ: Mapping[str, str], directory: str | None, script_folder: str | None = None
) -> tuple[ProfileFolder, ...]:
    """Every folder that is searched, in order; none of them need exist."""
    found = [
        ProfileFolder("project", os.path.join(folder, ".gpuconf"), os.path.join(folder, "gpuconf"))
        for folder in project_folders(environ, directory, script_folder)
    ]
    config = user_folder(environ, "XDG_CONFIG_HOME", ".config")
    if config is not None:
        found.append(ProfileFolder("user", config, os.path.join(config, "gpuconf")))
    found.append(ProfileFolder("shipped", shipped_folder()))
    return tuple(found)


def choose(
    environ: Mapping[str, str], searched: tuple[ProfileFolder, ...], parent: ParentChoice | None
) -> ProfileChoice:
    """What applies where no profile is named in code.

    ``parent`` is by default what the note in ``environ`` says.  A GPUCONF_PROFILE that came down
    from the parent unchanged was not set for this process: the parent's choice counts.
    """
    named = environ.get("GPUCONF_PROFILE", "").strip()
    note = read_note(environ)
    if parent is None and note is not None and note.profile:
        parent = ParentChoice(note.profile, note.origin)
        named = "" if named == note.asked.strip() else named
    if named:
        return ProfileChoice(named, "GPUCONF_PROFILE names it")
    if parent is not None:
        return ProfileChoice(parent.profile, BY_PARENT, _chosen_by_parent(parent))
    for place in searched:
        for path in _with_suffix(place, place.own_file) if place.own_file else ():
            whose = "the project's" if place.origin == "project" else "your"
            location = Location(place.origin, path, place.origin)
            return ProfileChoice(path, f"it is {whose} own file", location)
    return ProfileChoice(DEFAULT_PROFILE, "nothing else is set")


def _chosen_by_parent(parent: ParentChoice) -> Location | None:
    """The parent's file, which is found here too if it was found there; None for a name."""
    if parent.origin == "shipped":
        return None
    origin = parent.origin if parent.origin in ("user", "path") else "project"
    return locate_path(parent.profile, None)._replace(
        origin=origin, name=_name_of(parent.profile, origin)
    )


def is_path(name: str) -> bool:
    """True where ``name`` is a path rather than a profile's name."""
    return "/" in name or os.sep in name or name.endswith(_SUFFIXES) or name in ("", ".", "..")


def candidates(name: str, searched: tuple[ProfileFolder, ...]) -> Iterator[Location]:
    """The files that the profile ``name`` may be, the one that rules first."""
    if is_path(name) or "\x00" in name:
        return
    for place in searched:
        if name == place.origin and place.own_file is not None:
            yield from _locations(place, name, place.own_file)
        if place.origin != "user" or name != _OWN_FILE:
            yield from _locations(place, name, os.path.join(place.folder, name))


def _locations(place: ProfileFolder, name: str, stem: str) -> list[Location]:
    return [Location(name, path, place.origin) for path in _with_suffix(place, stem)]


def _with_suffix(place: ProfileFolder, stem: str) -> list[str]:
    # lexists: a broken link or a folder of that name is a mistake to report, not to pass over.
    is_there = is_shipped if place.origin == "shipped" else os.path.lexists
    return [stem + suffix for suffix in _SUFFIXES if is_there(stem + suffix)]


def _name_of(path: str, origin: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    if stem != _OWN_FILE:
        return stem
    return "user" if origin == "user" else "project"


def locate_path(path: str, folder: str | None, home: str | None = None) -> Location:
    """The profile at ``path``, relative to ``folder``; the file need not exist."""
    if home and path.startswith("~/"):
        path = os.path.join(home, path[2:])
    full = os.path.join(folder, path) if folder else path
    return Location(_name_of(full, "path"), full, "path")


def is_users_own(path: str, searched: tuple[ProfileFolder, ...]) -> bool:
    """Whether ``path`` is in the user's own folder of profiles."""
    folder = os.path.dirname(os.path.abspath(path))
    return any(place.origin == "user" and place.folder == folder for place in searched)


def absolute_path(
    named: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
) -> str | None:
    """The absolute path that a value of ``$GPUCONF_PROFILE`` means, seen from ``directory``.

    None for a name, and where the working directory was deleted.
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
    """Every profile that is there, the ones that rule before those they shadow."""
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
    if place.origin == "shipped":
        return shipped_files()
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
    """The error for a name that no place has, with the nearest name that one has."""
    from gpuconf.profile.problems import nearest, quoted  # a good profile needs neither

    found = all_locations(searched)
    names = sorted({printable(location.name) for location in found})
    meant = nearest(name, names)
    if all(location.origin != "shipped" for location in found):
        hint = f"gpuconf's own profiles are missing: {missing_shipped_hint()}"
    elif meant:
        hint = f"did you mean {meant}? all of them: gpuconf profiles list"
    else:
        hint = f"there are {', '.join(names[:12])}; see: gpuconf profiles list"
    return ProfileNotFoundError(
        f"there is no profile named {quoted(name)}" + (f"; {because}" if because else ""),
        hint=hint,
        file=mark.file if mark else None,
        line=mark.line if mark else None,
        column=mark.column if mark else None,
    )
