"""The profile: which one applies, its plan on this machine, and what overrides it."""

from __future__ import annotations

import shlex

from gpuconf.basics.units import sized
from gpuconf.commands.doctor.checks.check import Check, fail, ok, skip, warn
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding
from gpuconf.errors import GpuconfError, ProfileError, ShortageError
from gpuconf.planner import Plan


def _choice(facts: Facts) -> Finding:
    profile = facts.profile
    error = profile.profile_error
    if error is not None:
        hint = (f"hint: {error.hint}",) if error.hint else ()
        where = f"{error.location}: " if isinstance(error, ProfileError) and error.location else ""
        return fail(
            f"the profile that applies is refused: {where}{error.message}",
            *hint,
            f"it applies because {profile.because}",
            fix=_cure(error, profile.wanted),
        )
    if profile.name is None:
        return skip("the profile is not known")
    if profile.notes:
        return warn(
            f"profile {profile.name} applies, and another user may have written it",
            *[note.text for note in profile.notes],
            fix=profile.notes[0].command,
        )
    return ok(f"profile {profile.name} applies, because {profile.because}", profile.source or "")


def _cure(error: GpuconfError, wanted: str) -> str:
    """The command that fixes a rejected profile."""
    if error.command is not None:
        return f"{error.command}   # once you have read it"
    if isinstance(error, ProfileError) and error.file:
        return f"gpuconf profiles check {shlex.quote(wanted)}"
    return "gpuconf profiles list"


def _plan(facts: Facts) -> Finding:
    profile = facts.profile
    error = profile.plan_error
    if error is not None:
        lines = error.message.splitlines()
        hint = (f"hint: {error.hint}",) if error.hint else ()
        if isinstance(error, ShortageError) and error.wait_s is not None:
            return warn(
                f"programs have to wait with this profile right now: {lines[0]}",
                *[line.strip() for line in lines[1:]],
                fix="gpuconf ps   # shows who uses the GPU, and who waits",
            )
        fix = f"gpuconf plan {shlex.quote(profile.wanted)}"
        if isinstance(error, ShortageError):
            if holders := _holders_to_wait_for(error, facts):
                summary = f"no further program can start with this profile now: {holders}"
                fix = "gpuconf run --wait 10min -- COMMAND   # or choose a smaller profile"
                return warn(summary, *[line.strip() for line in lines], *hint, fix=fix)
            restart = error.restart.replace("`", "")  # in a fix the shell would run what is quoted
            fix = f"gpuconf ps   # {restart or 'find and stop what is using the GPU'}"
        return fail(
            f"programs cannot start with this profile right now: {lines[0]}",
            *[line.strip() for line in lines[1:]],
            *hint,
            fix=fix,
        )
    if profile.plan is None:
        return skip("there is no profile to plan with")
    return _judge(profile.plan, facts)


def _holders_to_wait_for(error: ShortageError, facts: Facts) -> str:
    """Describe the gpuconf programs that leave enough when they end; "" if there are none."""
    for gpu in (part for each in facts.inventory.gpus for part in (each, *each.mig_instances)):
        least = error.wanted.get(gpu.uuid or "", 0)
        used = sum(lease.used_bytes or 0 for lease in gpu.leases)
        if gpu.leases and 0 < least <= (gpu.free_bytes or 0) + used:
            size = sized(used + min(gpu.promised_bytes, gpu.free_bytes or 0))
            count = f"{len(gpu.leases)} program{'s' if len(gpu.leases) > 1 else ''}"
            return f"{size} of GPU {gpu.index} in use or reserved by {count} under gpuconf"
    return ""


def _judge(plan: Plan, facts: Facts) -> Finding:
    name = plan.profile.name
    if plan.hides_gpus:
        if facts.has_gpu and plan.profile.gpus.kind != "none" and plan.visible:
            return warn(
                f"under profile {name}, programs would run on the CPU, although there is a GPU",
                *plan.notes,
                fix=f"gpuconf plan {shlex.quote(facts.profile.wanted)}",
            )
        return ok(f"under profile {name}, programs run on the CPU", *plan.notes)
    if not plan.gpus:
        return skip(f"profile {name}: no GPU reports its memory", *plan.notes)
    shares = [
        f"GPU {gpu.gpu.index} {'no limit' if gpu.limit_bytes is None else sized(gpu.limit_bytes)}"
        for gpu in plan.gpus
    ]
    sums = [f"GPU {gpu.gpu.index}: {line}" for gpu in plan.gpus for line in gpu.sums]
    spills = facts.system.spills
    if spills and any(gpu.limit_bytes is None for gpu in plan.gpus):
        return warn(
            f"a program may use: {', '.join(shares)}; under {spills} running out is not an error",
            "a program that needs more memory than the GPU has gets slow host memory instead",
            *sums,
            *plan.notes,
            fix="export GPUCONF_PROFILE=shared-desktop",
        )
    if any(gpu.gpu.is_unified and gpu.allow_growth is False for gpu in plan.gpus):
        return warn(
            f"a program allocates all of its limit at the start: {', '.join(shares)}",
            "the GPU uses the host's memory, and the kernel frees its file cache too slowly for "
            "that: the machine may freeze",
            *sums,
            *plan.notes,
            fix="export GPUCONF_PROFILE=shared-desktop   # or set allow_growth: true",
        )
    return ok(f"a program may use: {', '.join(shares)}", *sums, *plan.notes)


def _environment(facts: Facts) -> Finding:
    profile = facts.profile
    if profile.plan is None:
        return skip("there is no plan that variables could undo")
    undone = [setting for setting in profile.settings if setting.why_not is not None]
    if not undone:
        return ok(f"no environment variable undoes what profile {profile.name} requests")
    variables = dict.fromkeys(each.variable for each in undone if each.variable is not None)
    return warn(
        f"environment variables undo what profile {profile.name} requests: "
        f"{', '.join(variables or [setting.name for setting in undone])}",
        *map(str, undone),
        fix=f"unset {' '.join(variables)}"
        if variables
        else f"gpuconf plan {shlex.quote(profile.wanted)}",
    )


CHECKS = (
    Check("profile.choice", "the profile that applies is valid", _choice),
    Check("profile.plan", "a program can start with the profile now", _plan),
    Check("profile.environment", "no environment variable undoes the profile", _environment),
)
