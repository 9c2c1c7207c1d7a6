"""Merge the files of a profile into a Profile, or report what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.errors import ProfileError
from gpuconf.profile import chain, combinations, nodes, reading, search
from gpuconf.profile.model import Profile


def build(
    location: search.Location,
    searched: tuple[search.ProfileFolder, ...],
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
) -> tuple[Profile | None, list[ProfileError]]:
    """Build the profile at ``location`` with ``overrides`` applied; also return the problems found.

    The profile is None if a file cannot be read; conflicting keys still give a profile.  Raises
    ProfileError for a bad override.
    """
    links, problems = chain.try_chain(location, searched, environ)
    if links is None:
        return None, problems
    root = links.root
    if overrides:
        root = nodes.merged(root, _checked(overrides))
    profile, problems = _profile(location, root)
    return profile._replace(origin=location.origin, notes=links.notes), problems


def _checked(overrides: Mapping[str, object]) -> nodes.Mapping:
    from gpuconf.profile.overrides import to_nodes

    root = to_nodes(overrides)
    _, problems = reading.read(root)
    if problems:
        raise problems[0]
    return root


def _profile(location: search.Location, root: nodes.Mapping) -> tuple[Profile, list[ProfileError]]:
    """Build the profile that the checked ``root`` describes; list its impossible combinations."""
    values, problems = reading.read(root)
    values.pop("extends", None)
    per_gpu = values.pop("per_gpu", ())
    rules = tuple((gpu, reading.read_gpu_rules(root, own)) for gpu, own in per_gpu)
    profile = Profile(location.name, location.path, per_gpu=rules, **values)
    return profile, problems or combinations.check(profile, root)
