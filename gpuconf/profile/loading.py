"""A name or path to a checked Profile."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from gpuconf.errors import ProfileError
from gpuconf.profile import chain, combinations, nodes, reading, search
from gpuconf.profile.model import Profile

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


def load_profile(
    name_or_path: PathOrName | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
) -> Profile:
    """The profile of that name or path, checked, with all it extends and ``overrides`` merged.

    Without a name: ``$GPUCONF_PROFILE``, else the project's ``gpuconf.yaml``, else
    ``shared-desktop``.  ``overrides`` is nested as a profile is, such as
    ``{"memory": {"memory_limit": "4GiB"}, "gpus": [0]}``; None removes a rule.  A path, and
    the search for names, begin in ``directory``, by default the working directory.

    Raises ProfileNotFoundError, or ProfileError for the first rule that is broken.
    """
    location, searched = _find(name_or_path, environ, directory)
    links = chain.read_chain(location, searched)
    root = links.root
    if overrides:
        root = nodes.merged(root, _checked_overrides(overrides))
    profile, problems = _build(location, root)
    if problems:
        raise problems[0]
    return profile


def find_profile(
    name_or_path: PathOrName | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
) -> search.Location:
    """Where the profile is; raises ProfileNotFoundError for a name that no folder has.

    A file given by its path is not looked at.
    """
    return _find(name_or_path, environ, directory)[0]


def check_profile(
    name_or_path: PathOrName | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    directory: PathOrName | None = None,
) -> list[ProfileError]:
    """What is wrong with a profile, at most 20 in the order of its file; empty if it is good.

    A file that is not YAML gives one error.  Raises ProfileNotFoundError for an unknown name.
    """
    location, searched = _find(name_or_path, environ, directory)
    links, problems = chain.try_chain(location, searched)
    return problems if links is None else _build(location, links.root)[1]


def list_profiles(
    *, environ: Mapping[str, str] = os.environ, directory: PathOrName | None = None
) -> list[ProfileEntry]:
    """Every profile that can be found, broken ones too, in the order of the search."""
    searched = search.places(environ, _text(directory))
    entries: list[ProfileEntry] = []
    seen: set[str] = set()
    for location in search.all_locations(searched):
        links, problems = chain.try_chain(location, searched)
        description = None
        if links is not None:
            profile, problems = _build(location, links.root)
            description = profile.description
        error = problems[0] if problems else None
        entries.append(ProfileEntry(*location, description, location.name in seen, error))
        seen.add(location.name)
    return entries


def chosen_profile(
    *, environ: Mapping[str, str] = os.environ, directory: PathOrName | None = None
) -> search.Choice:
    """The name or path that applies where code names none, and why."""
    return search.choose(environ, _text(directory))


def _find(
    name_or_path: PathOrName | None,
    environ: Mapping[str, str],
    directory: PathOrName | None,
) -> tuple[search.Location, tuple[search.Place, ...]]:
    folder = _text(directory)
    searched = search.places(environ, folder)
    because = ""
    if name_or_path is None:
        name, because = search.choose(environ, folder)
    else:
        name = os.fspath(name_or_path)
    if search.is_path(name) or isinstance(name_or_path, os.PathLike):
        return search.locate_path(name, folder, environ.get("HOME")), searched
    for location in search.candidates(name, searched):
        return location, searched
    raise search.not_found(name, searched, nodes.Mark(), because)


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
