"""Merge the files of a profile into a Profile, or report what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.errors import ProfileError
from gpuconf.profile import chain, combinations, nodes, powers, reading, search
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
    links, problems = chain.read_links(location, searched, environ)
    if problems:
        return None, problems
    root = chain.merged_root(links)
    if overrides:
        from gpuconf.profile.overrides import checked_nodes

        root = nodes.merged(root, checked_nodes(overrides))
    values, problems = reading.read(root)
    values.pop("extends", None)
    per_gpu = values.pop("per_gpu", ())
    rules = tuple((gpu, reading.read_gpu_rules(root, own)) for gpu, own in per_gpu)
    profile = Profile(location.name, location.path, per_gpu=rules, **values)
    problems = problems or combinations.check(profile, root)
    return profile._replace(origin=location.origin, notes=powers.notes(links, environ)), problems
