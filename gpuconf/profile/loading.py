"""A name or path to a checked Profile."""

from __future__ import annotations

import os

from gpuconf.errors import ProfileError, ProfileNotFoundError
from gpuconf.profile import search
from gpuconf.profile.files import fingerprint, read_shipped
from gpuconf.profile.model import Profile
from gpuconf.records import NamedTuple

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping

PathOrName = str | os.PathLike[str]


class ProfileEntry(NamedTuple):
    """A profile that can be found.

    ``origin`` is project, user or shipped.  ``is_shadowed`` holds where another of the same
    name rules; ``error`` is what is wrong with it, or None.
    """

    name: str
    path: str
    origin: str
    description: str | None
    is_shadowed: bool
    error: ProfileError | None


class _Found(NamedTuple):
    """Where a profile is, why it applies where code does not name it, and what was searched."""

    location: search.Location
    because: str
    searched: tuple[search.ProfileFolder, ...]


def load_profile(
    name_or_path: PathOrName | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
    script_folder: str | None = None,
    parent: search.ParentChoice | None = None,
) -> Profile:
    """The profile of that name or path, checked, with all it extends and ``overrides`` merged.

    Without a name: ``$GPUCONF_PROFILE``, else the choice of the ``parent`` process, else the
    project's ``gpuconf.yaml``, else the user's own, else ``shared-desktop``.  ``overrides`` is
    nested as a profile is, such as ``{"memory": {"memory_limit": "4GiB"}, "gpus": [0]}``; None
    removes a rule.  A path begins in ``directory``, by default the working directory.  The
    project is searched for from ``script_folder``, the main script's, and then from there.

    Raises ProfileNotFoundError, or ProfileError for the first rule that is broken.
    """
    found = _find(name_or_path, environ, directory, script_folder, parent)
    profile = None if overrides else _ready_made(found.location)
    if profile is not None:
        return profile
    profile, problems = _read(found, environ, overrides)
    if problems or profile is None:
        raise problems[0]
    return profile


def find_profile(
    name_or_path: PathOrName | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
    script_folder: str | None = None,
    parent: search.ParentChoice | None = None,
) -> search.Location:
    """Where the profile is; raises ProfileNotFoundError for a name that no folder has.

    A file given by its path is not looked at.
    """
    return _find(name_or_path, environ, directory, script_folder, parent).location


def chosen_profile(
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
    script_folder: str | None = None,
    parent: search.ParentChoice | None = None,
) -> search.ProfileChoice:
    """The name or path that applies where code names none, and why."""
    searched = search.places(environ, _text(directory), script_folder)
    return search.choose(environ, searched, parent)


def choice_of(profile: Profile) -> search.ParentChoice:
    """What a child process is to be given as its ``parent`` to get the same profile."""
    if profile.origin == "shipped" or profile.source is None:
        return search.ParentChoice(profile.name, "shipped")
    return search.ParentChoice(os.path.abspath(profile.source), profile.origin)


def check_profile(
    name_or_path: PathOrName | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
) -> list[ProfileError]:
    """What is wrong with a profile, at most 20 in the order of its file; empty if it is good.

    A file that is not YAML gives one error.  Raises ProfileNotFoundError for an unknown name.
    """
    return _read(_find(name_or_path, environ, directory), environ)[1]


def refused_if_found(
    path: PathOrName,
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
) -> list[ProfileError]:
    """What a good file at ``path`` may not set where the search of a project finds it.

    Empty for a file of a name that the search does not look for.
    """
    found = _find(os.path.join(os.curdir, path), environ, directory)
    file = os.path.abspath(found.location.path)
    is_own = found.location.name == "project"
    is_named = os.path.basename(os.path.dirname(file)) == ".gpuconf"
    if not (is_own or is_named) or search.is_users_own(file, found.searched):
        return []
    from gpuconf.profile.chain import try_chain

    return try_chain(found.location._replace(origin="project"), found.searched, environ)[1]


def list_profiles(
    *, environ: Mapping[str, str] = os.environ, directory: PathOrName | None = None
) -> list[ProfileEntry]:
    """Every profile that can be found, broken ones too, in the order of the search."""
    from gpuconf.profile.building import build

    searched = search.places(environ, _text(directory))
    entries: list[ProfileEntry] = []
    seen: set[str] = set()
    for location in search.all_locations(searched):
        profile, problems = build(location, searched, environ)
        description = None if profile is None else profile.description
        error = problems[0] if problems else None
        entries.append(ProfileEntry(*location, description, location.name in seen, error))
        seen.add(location.name)
    return entries


def _find(
    name_or_path: PathOrName | None,
    environ: Mapping[str, str],
    directory: PathOrName | None,
    script_folder: str | None = None,
    parent: search.ParentChoice | None = None,
) -> _Found:
    folder = _text(directory)
    searched = search.places(environ, folder, script_folder)
    because, among = "", searched
    if name_or_path is None:
        name, because, location = search.choose(environ, searched, parent)
        if location is not None:
            return _Found(location, because, searched)
        if because == search.BY_PARENT:  # not a project's file that has the same name
            among = searched[-1:]
    else:
        name = _name_or_path(name_or_path)
    if search.is_path(name) or isinstance(name_or_path, os.PathLike):
        location = search.locate_path(name, folder, environ.get("HOME"))
        return _Found(location, because, searched)
    for location in search.candidates(name, among):
        return _Found(location, because, searched)
    raise search.not_found(name, searched, because=because)


def _ready_made(location: search.Location) -> Profile | None:
    """The profile as it was read when gpuconf was made, if it is shipped and its file is the same.

    So a good shipped profile needs neither YAML nor the schema.
    """
    if location.origin != "shipped":
        return None
    from gpuconf.profile.ready_made import PROFILES

    try:
        profile = PROFILES.get(fingerprint(read_shipped(location.path)))
    except ProfileError:  # which reading it will report
        return None
    if profile is None:
        return None
    return profile._replace(name=location.name, source=location.path, origin=location.origin)


def _read(
    found: _Found, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> tuple[Profile | None, list[ProfileError]]:
    """The profile in its files, or what is wrong; a missing file with why it is wanted."""
    from gpuconf.profile.building import build

    profile, problems = build(found.location, found.searched, environ, overrides)
    if problems and found.because:
        problems[0] = _wanted_because(found, problems[0])
    return profile, problems


def _wanted_because(found: _Found, error: ProfileError) -> ProfileError:
    """``error``; where the profile's own file is missing, with the reason why it was wanted."""
    is_missing = isinstance(error, ProfileNotFoundError) and error.line is None
    if not is_missing or error.file != found.location.path:
        return error
    hint = error.hint
    if found.because == search.BY_PARENT:
        hint = "GPUCONF_PROFILE=NAME chooses another; see: gpuconf profiles list"
    message = f"{error.message}; {found.because}"
    return ProfileNotFoundError(message, hint=hint, file=error.file)


def _name_or_path(given: object) -> str:
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    if isinstance(text, str):
        return text
    from gpuconf.profile.problems import quoted

    raise ProfileError(
        f"found {quoted(repr(given))} of type {type(given).__name__}; "
        "the rule: a profile is a name or a path",
        hint='give text or a pathlib.Path, such as "shared-desktop"',
    )


def _text(path: PathOrName | None) -> str | None:
    return None if path is None else os.fspath(path)
