"""A name or path to a checked Profile."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from gpuconf.errors import ProfileError, ProfileNotFoundError
from gpuconf.profile import chain, combinations, nodes, reading, search
from gpuconf.profile.model import Profile
from gpuconf.profile.problems import quoted

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
    links, problems = _try_chain(found, environ)
    if links is None:
        raise problems[0]
    root = links.root
    if overrides:
        root = nodes.merged(root, _checked_overrides(overrides))
    profile, problems = _build(found.location, root)
    if problems:
        raise problems[0]
    return profile._replace(origin=found.location.origin, notes=links.notes)


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
    found = _find(name_or_path, environ, directory)
    links, problems = _try_chain(found, environ)
    return problems if links is None else _build(found.location, links.root)[1]


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
    location = found.location._replace(origin="project")
    return chain.try_chain(location, found.searched, environ)[1]


def list_profiles(
    *, environ: Mapping[str, str] = os.environ, directory: PathOrName | None = None
) -> list[ProfileEntry]:
    """Every profile that can be found, broken ones too, in the order of the search."""
    searched = search.places(environ, _text(directory))
    entries: list[ProfileEntry] = []
    seen: set[str] = set()
    for location in search.all_locations(searched):
        links, problems = chain.try_chain(location, searched, environ)
        description = None
        if links is not None:
            profile, problems = _build(location, links.root)
            description = profile.description
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
    raise search.not_found(name, searched, nodes.Mark(), because)


def _try_chain(
    found: _Found, environ: Mapping[str, str]
) -> tuple[chain.Chain | None, list[ProfileError]]:
    """The chain, or what is wrong; a missing file with the reason why it is wanted."""
    links, problems = chain.try_chain(found.location, found.searched, environ)
    if links is None and found.because:
        problems[0] = _wanted_because(found, problems[0])
    return links, problems


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
    raise ProfileError(
        f"found {quoted(repr(given))} of type {type(given).__name__}; "
        "the rule: a profile is a name or a path",
        hint='give text or a pathlib.Path, such as "shared-desktop"',
    )


def _text(path: PathOrName | None) -> str | None:
    return None if path is None else os.fspath(path)


def _checked_overrides(overrides: Mapping[str, object]) -> nodes.Mapping:
    from gpuconf.profile.overrides import to_nodes

    root = to_nodes(overrides)
    _, problems = reading.read(root)
    if problems:
        raise problems[0]
    return root


def _build(location: search.Location, root: nodes.Mapping) -> tuple[Profile, list[ProfileError]]:
    """The profile that the checked ``root`` describes, and its impossible combinations."""
    values, problems = reading.read(root)
    values.pop("extends", None)
    per_gpu = values.pop("per_gpu", ())
    rules = tuple((gpu, reading.read_gpu_rules(root, own)) for gpu, own in per_gpu)
    profile = Profile(location.name, location.path, per_gpu=rules, **values)
    return profile, problems or combinations.check(profile, root)
