"""Find out by trial what would start now on a GPU with too little memory for a profile."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from gpuconf.basics.units import MIB, Amount, sized
from gpuconf.errors import GpuconfError
from gpuconf.planner import Plan, wants_leases
from gpuconf.profile import Profile, load_profile

# Shipped profiles for a shared GPU, ordered from most to least memory kept free for others.
_PROFILES = ("shared-desktop", "notebook", "half-card", "small-laptop")
_LEAST = Amount(size_bytes=256 * MIB)  # below that, TensorFlow has no room for a first step


def suggest_alternative(
    profile: Profile, make: Callable[[Profile], Plan], environ: Mapping[str, str] = os.environ
) -> str | None:
    """Describe an alternative to ``profile`` that ``make`` can plan; None if there is none."""
    if not wants_leases(profile):
        return None  # its figures were read without leases, which the alternatives respect
    for words, candidate in _candidates(profile, environ):
        try:
            plan = make(candidate)
        except GpuconfError:
            continue
        limits = [each.limit_bytes for each in plan.gpus if each.limit_bytes is not None]
        if limits:
            return f"{words} would start now, limited to {sized(min(limits), cut=True)}"
    return None


def _candidates(profile: Profile, environ: Mapping[str, str]) -> Iterator[tuple[str, Profile]]:
    """Yield profiles with the text a user would write; the last is this one with less
    ``at_least``."""
    for name in _PROFILES:
        if name != profile.name:
            try:
                other = load_profile(name, environ=environ)
                yield f"`GPUCONF_PROFILE={name}`", other._replace(processes=profile.processes)
            except GpuconfError:  # a project's own profile of that name, which is refused
                continue
    if profile.memory.at_least is not None and not profile.per_gpu:
        memory = profile.memory._replace(at_least=_LEAST)
        words = f"with `--set memory.at_least={_LEAST}`, this profile"
        yield words, profile._replace(memory=memory)
