"""The variables that PyTorch's allocator reads: parse them, and convert a plan to them.

This module is pure and does not need torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuconf.basics.environment import Change
from gpuconf.basics.units import MIB
from gpuconf.profile import Profile
from gpuconf.profile.owned_variables import OWNED_VARIABLES

UNCACHED = "PYTORCH_NO_CUDA_MEMORY_CACHING"
# The first is for CUDA only.  torch has called it deprecated since 2.9, and older versions read no
# other.
OPTION_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
# c10/core/AllocatorConfig.h, ConfigTokenizer: a comma within brackets separates values.
_OPTION = re.compile(r"([^,:\[\]]+)(?::((?:\[[^\]]*\]|[^,\[\]])*))?")


def options_in(value: str) -> list[tuple[str, str]]:
    """Return the names and values without whitespace; a value may be missing.

    ``max_split_size_mb:128,roundup_power2_divisions:[256:1,>:4]`` has two options.
    """
    bare = "".join(value.split())
    return [(found[1], found[2] or "") for found in _OPTION.finditer(bare)]


def options_of(profile: Profile) -> dict[str, tuple[str, str]]:
    """Return the profile's keys under ``torch``, each with its option and that option's value."""
    rules = profile.torch
    split = rules.max_split_size
    wanted = {
        "expandable_segments": ("expandable_segments", rules.expandable_segments),
        "garbage_collection_threshold": (
            "garbage_collection_threshold",
            rules.garbage_collection_threshold,
        ),
        "max_split_size": ("max_split_size_mb", None if split is None else split // MIB),
    }
    return {
        key: (option, str(value)) for key, (option, value) in wanted.items() if value is not None
    }


def wishes(profile: Profile, baseline: Mapping[str, str]) -> list[Change]:
    """Return the profile's options merged into the user's, in every variable the user has set."""
    wanted = options_of(profile)
    if not wanted:
        return []
    names = [name for name in OPTION_VARIABLES if baseline.get(name)] or [OPTION_VARIABLES[0]]
    return [change for name in names for change in _merged(name, baseline.get(name, ""), wanted)]


def _merged(name: str, theirs: str, wanted: Mapping[str, tuple[str, str]]) -> list[Change]:
    given = options_in(theirs)
    known = dict(given)
    added = [pair for pair in wanted.values() if pair[0] not in known]
    merged = ",".join(f"{option}:{value}" for option, value in [*given, *added])
    owner = OWNED_VARIABLES[name]
    changes = [Change(name, merged if added else theirs, owner, overrules=True)]
    # The user's value stays; requesting only ours makes environ.settle report the difference.
    return changes + [
        Change(name, f"{option}:{value}", owner)
        for option, value in wanted.values()
        if known.get(option, value) != value
    ]


def unenforced_limit(environ: Mapping[str, str]) -> str | None:
    """Return why PyTorch's fraction is not a cap in ``environ``; None if it is."""
    if environ.get(UNCACHED):
        return f"with {UNCACHED} set, PyTorch allocates memory call by call, without a limit"
    return None
