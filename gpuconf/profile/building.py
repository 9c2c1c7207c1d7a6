"""The files of a profile, merged, to the Profile that they describe, or to what is wrong."""

from __future__ import annotations

from gpuconf.errors import ProfileError
from gpuconf.profile import chain, combinations, nodes, reading, search
from gpuconf.profile.model import Profile

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping


def build(
    location: search.Location,
    searched: tuple[search.ProfileFolder, ...],
    environ: Mapping[str, str],
    overrides: Mapping[str, object] | None = None,
) -> tuple[Profile | None, list[ProfileError]]:
    """The profile at ``location``, ``overrides`` laid over it, and the problems of its files.

    None where a file cannot be read; a profile whose keys do not go together is there.  Raises
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
    """The profile that the checked ``root`` describes, and its impossible combinations."""
    values, problems = reading.read(root)
    values.pop("extends", None)
    per_gpu = values.pop("per_gpu", ())
    rules = tuple((gpu, reading.read_gpu_rules(root, own)) for gpu, own in per_gpu)
    profile = Profile(location.name, location.path, per_gpu=rules, **values)
    return profile, problems or combinations.check(profile, root)
