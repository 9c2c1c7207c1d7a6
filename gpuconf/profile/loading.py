"""From a name or path to a checked Profile."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from gpuconf.errors import ProfileError, ProfileNotFoundError
from gpuconf.profile import search
from gpuconf.profile.model import Profile

PathOrName = str | os.PathLike[str]


class ProfileEntry(NamedTuple):
    """A profile that can be found.

    ``origin`` is project, user or shipped.  ``is_shadowed`` means that another profile of the same
    name takes precedence.  ``error`` is the first problem in the profile, or None.
    """

    name: str
    path: str
    origin: str
    description: str | None
    is_shadowed: bool
    error: ProfileError | None


class _Found(NamedTuple):
    """Where a profile is, why it applies if code names none, and which folders were searched."""

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
) -> Profile:
    """Load the profile with that name or path, and check it.

    ``extends`` and ``overrides`` are merged in.  Without a name, the profile is the first of:
    ``$GPUCONF_PROFILE``, the parent process's choice, the project's ``gpuconf.yaml``, the
    user's own, and ``shared-desktop``.  ``overrides`` is nested like a profile, such as
    ``{"memory": {"memory_limit": "4GiB"}, "gpus": [0]}``; None removes a rule.  A path is relative
    to ``directory``, by default the working directory.  The search for the project starts at
    ``script_folder``, the main script's folder, and then at ``directory``.

    Raises ProfileNotFoundError, or ProfileError for the first broken rule.
    """
    found = _find(name_or_path, environ, directory, script_folder)
    profile, problems = _read(found, environ, overrides)
    if problems or profile is None:
        raise problems[0]
    return profile


def find_profile(
    name_or_path: PathOrName | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
) -> search.Location:
    """Return the location of the profile; raise ProfileNotFoundError for an unknown name.

    A file given by its path is not opened.
    """
    return _find(name_or_path, environ, directory).location


def chosen_profile(
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
    script_folder: str | None = None,
) -> search.ProfileChoice:
    """Return the name or path that applies if code does not name one, and the reason."""
    searched = search.places(environ, _text(directory), script_folder)
    return search.choose(environ, searched)


def choice_of(profile: Profile) -> search.ParentChoice:
    """Return what a note for child processes says, so that they load the same profile."""
    if profile.origin == "shipped" or profile.source is None:
        return search.ParentChoice(profile.name, "shipped")
    return search.ParentChoice(os.path.abspath(profile.source), profile.origin)


def check_profile(
    name_or_path: PathOrName | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
) -> list[ProfileError]:
    """List the problems of a profile, at most 20 in file order; empty if it is valid.

    A file that is not YAML gives one error.  Raises ProfileNotFoundError for an unknown name.
    """
    return _read(_find(name_or_path, environ, directory), environ)[1]


def refused_if_found(
    path: PathOrName,
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
) -> list[ProfileError]:
    """List what a valid file at ``path`` sets but may not set if the project search finds it.

    Empty for a file name that the search does not look for.
    """
    found = _find(os.path.join(os.curdir, path), environ, directory)
    file = os.path.abspath(found.location.path)
    is_own = found.location.name == "project"
    is_named = os.path.basename(os.path.dirname(file)) == ".gpuconf"
    if not (is_own or is_named) or search.is_users_own(file, found.searched):
        return []
    from gpuconf.profile.chain import read_links

    return read_links(found.location._replace(origin="project"), found.searched, environ)[1]


def list_profiles(
    *, environ: Mapping[str, str] = os.environ, directory: PathOrName | None = None
) -> list[ProfileEntry]:
    """List every profile that can be found, including broken ones, in search order."""
    from gpuconf.profile.chain import build

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
) -> _Found:
    folder = _text(directory)
    searched = search.places(environ, folder, script_folder)
    because, among = "", searched
    if name_or_path is None:
        name, because, location = search.choose(environ, searched)
        if location is not None:
            return _Found(location, because, searched)
        if because == search.BY_PARENT:  # and not a project file of the same name
            among = searched[-1:]
    else:
        name = os.fsdecode(name_or_path)
    if search.is_path(name) or isinstance(name_or_path, os.PathLike):
        location = search.locate_path(name, folder, environ.get("HOME"))
        return _Found(location, because, searched)
    for location in search.candidates(name, among):
        return _Found(location, because, searched)
    raise search.not_found(name, searched, because=because)


def _read(
    found: _Found, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> tuple[Profile | None, list[ProfileError]]:
    """Read the profile and its problems from its files; if one is gone, report why it is used."""
    # Not at the top: a program under `gpuconf run` reads no file, and its Python may lack PyYAML.
    from gpuconf.profile.chain import build

    profile, problems = build(found.location, found.searched, environ, overrides)
    if problems and found.because:
        problems[0] = _wanted_because(found, problems[0])
    return profile, problems


def _wanted_because(found: _Found, error: ProfileError) -> ProfileError:
    """Return ``error``; if the profile's own file is missing, add why it was wanted."""
    is_missing = isinstance(error, ProfileNotFoundError) and error.line is None
    if not is_missing or error.file != found.location.path:
        return error
    hint = error.hint
    if found.because == search.BY_PARENT:
        hint = "GPUCONF_PROFILE=NAME chooses another; see: gpuconf profiles list"
    message = f"{error.message}; {found.because}"
    return ProfileNotFoundError(message, hint=hint, file=error.file)


def _text(path: PathOrName | None) -> str | None:
    return None if path is None else os.fspath(path)
