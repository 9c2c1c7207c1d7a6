"""Reads a profile and its parent profiles from files, and merges them into a Profile."""

from __future__ import annotations

import os
from collections.abc import Mapping as PlainMapping

from gpuconf.errors import ProfileError, ProfileNotFoundError
from gpuconf.profile import combinations, permissions, search, validation
from gpuconf.profile.document import decode, parse
from gpuconf.profile.files import read_bytes
from gpuconf.profile.model import Profile
from gpuconf.profile.nodes import Mapping, Scalar, merged
from gpuconf.profile.permissions import Link
from gpuconf.profile.problems import problem

LONGEST_CHAIN = 10


def build(
    location: search.Location,
    searched: tuple[search.ProfileFolder, ...],
    environ: PlainMapping[str, str],
    overrides: PlainMapping[str, object] | None = None,
) -> tuple[Profile | None, list[ProfileError]]:
    """Build the profile at ``location`` with ``overrides`` applied; also return the problems found.

    The profile is None if a file cannot be read; conflicting keys still give a profile.  Raises
    ProfileError for a bad override.
    """
    links, problems = read_links(location, searched, environ)
    if problems:
        return None, problems
    root = merged_root(links)
    if overrides:
        from gpuconf.profile.overrides import checked_nodes

        root = merged(root, checked_nodes(overrides))
    values, problems = validation.read(root)
    values.pop("extends", None)
    per_gpu = values.pop("per_gpu", ())
    rules = tuple((gpu, validation.read_gpu_rules(root, own)) for gpu, own in per_gpu)
    profile = Profile(location.name, location.path, per_gpu=rules, **values)
    problems = problems or combinations.check(profile, root)
    return profile._replace(
        origin=location.origin, notes=permissions.notes(links, environ)
    ), problems


def read_links(
    location: search.Location,
    searched: tuple[search.ProfileFolder, ...],
    environ: PlainMapping[str, str] | None,
) -> tuple[list[Link], list[ProfileError]]:
    """Return the valid files of a chain up to the first problem, and the problems of the last file.

    Without ``environ``, every file may set whatever a named file may.
    """
    links: list[Link] = []
    following: search.Location | None = location
    while following is not None:
        try:
            links.append(_read_link(following, links))
            values, problems = validation.read(links[-1].root)
            if not problems and environ is not None:
                problems = permissions.refusals(links, environ)
            if problems:
                return links, problems
            following = _parent(values.get("extends"), links, searched)
        except ProfileError as error:  # noqa: PERF203  # at most LONGEST_CHAIN times
            return links, [_asked_for(error, links)]
    return links, []


def merged_root(links: list[Link]) -> Mapping:
    """Merge the files in a chain, in which the requested file comes first."""
    whole = links[-1].root
    for link in reversed(links[:-1]):
        whole = merged(_without_description(whole), link.root)
    return whole


def _without_description(root: Mapping) -> Mapping:
    """Drop the description: it does not apply to profiles that extend this one."""
    entries = {name: entry for name, entry in root.entries.items() if name != "description"}
    return Mapping(entries, root.mark)


def _read_link(location: search.Location, before: list[Link]) -> Link:
    """Read the file at ``location`` without checking its keys; its level is the chain's lowest."""
    path = location.path
    data = read_bytes(path)
    level = permissions.level_of(location)
    if before:
        level = permissions.lower(level, before[-1].level)
    return Link(location, data, parse(decode(data, path), path), level)


def _asked_for(error: ProfileError, children: list[Link]) -> ProfileError:
    """Report a missing file at the line that extends it."""
    named = children[-1].root.get("extends") if children else None
    is_missing = isinstance(error, ProfileNotFoundError) and error.line is None
    if not is_missing or not isinstance(named, Scalar):
        return error
    return problem(
        f"{error.file} does not exist: {error.message}",
        mark=named.mark,
        key="extends",
        hint="a path is relative to this file's folder; for a profile's name, leave out .yaml: "
        "gpuconf profiles list",
        kind=ProfileNotFoundError,
    )


def _parent(
    name: str | None, links: list[Link], searched: tuple[search.ProfileFolder, ...]
) -> search.Location | None:
    """Return the file that the last of ``links`` extends; reject cycles and long chains."""
    named = links[-1].root.get("extends")
    if name is None or named is None:
        return None
    read = [link.location for link in links]
    child = read[-1]
    parent = _lookup(name, child, searched)
    if parent is None:
        if name == child.name:
            message = "the profile extends itself: no other profile has its name"
            hint = "delete this line, or name another profile; see: gpuconf profiles list"
            raise problem(message, mark=named.mark, key="extends", hint=hint)
        missing = search.not_found(name, searched, mark=named.mark)
        missing.key = "extends"
        raise missing
    known = [os.path.realpath(link.path) for link in read]
    if os.path.realpath(parent.path) in known:
        names = " → ".join([link.name for link in read] + [name])
        hint = "delete this line, or name a profile outside the cycle"
        what = "the profile extends itself" if len(read) == 1 else "a cycle of profiles"
        raise problem(f"{what}: {names}", mark=named.mark, key="extends", hint=hint)
    if len(read) >= LONGEST_CHAIN:
        rule = f"more than {LONGEST_CHAIN} profiles extend each other"
        raise problem(rule, mark=named.mark, key="extends", hint="merge some of these profiles")
    return parent


def _lookup(
    name: str, child: search.Location, searched: tuple[search.ProfileFolder, ...]
) -> search.Location | None:
    """Look up a parent profile.

    A path starts at the child's folder, or with ~ at the home folder; the child's own name means
    the next profile with that name.
    """
    if search.is_path(name):
        return search.locate_path(name, os.path.dirname(child.path), os.path.expanduser("~"))
    found = list(search.candidates(name, searched))
    own = [
        i for i, at in enumerate(found) if os.path.realpath(at.path) == os.path.realpath(child.path)
    ]
    if own:
        found = found[own[0] + 1 :]
    return found[0] if found else None
