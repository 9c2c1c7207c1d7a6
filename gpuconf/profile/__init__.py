"""Profiles, which say what a user requests: found, read from YAML and checked.

Importing this package does not load PyYAML, which is needed only for reading a file: a program
under ``gpuconf run`` reads none.
"""

from __future__ import annotations

from gpuconf.profile.loading import (
    ProfileEntry,
    check_profile,
    choice_of,
    chosen_profile,
    find_profile,
    list_profiles,
    load_profile,
    refused_if_found,
)
from gpuconf.profile.model import Profile
from gpuconf.profile.search import ParentChoice, absolute_path

__all__ = [
    "ParentChoice",
    "Profile",
    "ProfileEntry",
    "absolute_path",
    "check_profile",
    "choice_of",
    "chosen_profile",
    "find_profile",
    "list_profiles",
    "load_profile",
    "refused_if_found",
]
