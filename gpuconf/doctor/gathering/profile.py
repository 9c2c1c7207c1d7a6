"""The profile that applies, and its plan on this machine: what `import gpuconf.auto` would do."""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.doctor.facts import ProfileFacts
from gpuconf.errors import GpuconfError
from gpuconf.hardware import Inventory
from gpuconf.machine_plan import environment_for, plan_for
from gpuconf.profile import chosen_profile, load_profile


def read_profile(
    named: str | None,
    inventory: Inventory,
    *,
    environ: Mapping[str, str],
    script_folder: str | None = None,
) -> ProfileFacts:
    """Load the profile ``named``, or the one that applies, and plan with it; never raises ours."""
    if named is None:
        choice = chosen_profile(environ=environ, script_folder=script_folder)
        facts = ProfileFacts(choice.profile, choice.because)
    else:
        facts = ProfileFacts(named, "it was named with --profile")
    try:
        profile = load_profile(named, environ=environ, script_folder=script_folder)
    except GpuconfError as error:
        return facts._replace(profile_error=error)
    rules = [profile.memory, *(each.memory for _, each in profile.per_gpu)]
    facts = facts._replace(
        name=profile.name,
        source=profile.source,
        notes=profile.notes,
        keeps_free=any(each.keep_free is not None for each in rules),
    )
    try:
        plan = plan_for(profile, environ=environ, read=lambda: inventory)
    except GpuconfError as error:
        return facts._replace(plan_error=error)
    _, settings = environment_for(profile, plan, environ)
    return facts._replace(plan=plan, settings=tuple(settings))
