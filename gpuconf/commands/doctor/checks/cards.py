"""The GPUs: whether they respond, free memory, displays and MIG."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.basics.units import sized
from gpuconf.commands.doctor.cards import shown_holders
from gpuconf.commands.doctor.checks.check import NO_GPU, Check, fail, ok, skip, warn
from gpuconf.commands.doctor.checks.driver_cause import cause_of
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding
from gpuconf.errors import ShortageError
from gpuconf.machine.cards import Gpu
from gpuconf.machine.cards.health import CardHealth


def named(gpu: Gpu) -> str:
    """A GPU's human-readable name."""
    return f"GPU {gpu.index} ({gpu.name})" if gpu.name else f"GPU {gpu.index}"


def _reachable(facts: Facts) -> Finding:
    if cause_of(facts) == "lost":
        return fail(
            "a GPU has fallen off the bus, and NVML does not start",
            "the kernel's log says which: sudo dmesg | grep -i xid",
            fix="sudo reboot",
        )
    if not facts.has_gpu:
        return skip(NO_GPU)
    problems = {gpu.index: facts.health.get(gpu.index, CardHealth()).problem
                for gpu in facts.inventory.gpus}  # fmt: skip
    lost = [index for index, problem in problems.items() if problem == "lost"]
    closed = [index for index, problem in problems.items() if problem == "forbidden"]
    if lost:
        return fail(
            f"GPU {', '.join(map(str, lost))} is lost: it has fallen off the bus",
            "heat, power or a loose riser can cause that; programs that see all GPUs fail",
            "the kernel's log says why: sudo dmesg | grep -i xid",
            fix="sudo reboot",
        )
    if closed:
        listed = ", ".join(map(str, closed))
        return ok(
            f"GPU {listed} is not accessible to this user (perhaps restricted by a scheduler); "
            "the others respond"
        )
    return ok(f"{len(problems)} GPU{'' if len(problems) == 1 else 's'}, and every one responds")


def _memory(facts: Facts) -> Finding:
    """A single full GPU is normal; no free memory on any GPU is not."""
    known = [gpu for gpu in _devices(facts) if gpu.total_bytes and gpu.free_bytes is not None]
    if not known:
        return skip("no GPU reports its memory" if facts.has_gpu else NO_GPU)
    lines = [
        f"{named(gpu)}: {sized(gpu.free_bytes or 0)} of {sized(gpu.total_bytes or 0)} free"
        for gpu in known
    ]
    roomy = [gpu for gpu in known if (gpu.free_bytes or 0) >= 0.1 * (gpu.total_bytes or 0)]
    if roomy:
        best = max(roomy, key=lambda gpu: gpu.free_bytes or 0)
        free = f"{sized(best.free_bytes or 0)} are free on {named(best)}"
        error = facts.profile.plan_error
        if isinstance(error, ShortageError):
            return warn(
                f"{free}, too little for profile {facts.profile.name}",
                *lines,
                fix="gpuconf ps   # shows who uses the GPU; then: gpuconf doctor profile",
            )
        return ok(free, *lines)
    pids = [str(p.pid) for gpu in known for p in gpu.processes or () if p.kind == "compute"]
    return warn(
        "less than a tenth of the memory is free on every GPU"
        if len(known) > 1
        else f"less than a tenth of the memory is free on {named(known[0])}",
        *lines,
        *[str(holder) for gpu in known for holder in shown_holders(gpu, facts) or ()],
        fix=f"ps -fp {','.join(dict.fromkeys(pids))}   # then stop one of them: kill PID"
        if pids
        else "nvidia-smi; sudo fuser -v /dev/nvidia*",
    )


def _devices(facts: Facts) -> Iterator[Gpu]:
    """The GPUs, or the MIG instances of a GPU that is partitioned."""
    for gpu in facts.inventory.gpus:
        yield from gpu.mig_instances if gpu.mig_enabled else (gpu,)


def _display(facts: Facts) -> Finding:
    if not facts.has_gpu:
        return skip(NO_GPU)
    active = [gpu for gpu in facts.inventory.gpus if gpu.display_active]
    if not active:
        if any(gpu.display_active is None for gpu in facts.inventory.gpus):  # WSL2, a lost GPU
            return skip("unknown: the driver does not say whether a GPU drives the display")
        return ok("no GPU drives a display")
    profile = facts.profile
    names = " and ".join(named(gpu) for gpu in active)
    drive = f"{names} drive{'s' if len(active) == 1 else ''} the display"
    used = {plan.gpu.uuid for plan in profile.plan.gpus} if profile.plan else set()
    if profile.keeps_free is False and any(gpu.uuid in used for gpu in active):
        return warn(
            f"{drive}, and profile {profile.name} keeps nothing free for it",
            "a desktop without memory stutters or crashes",
            fix="export GPUCONF_PROFILE=shared-desktop",
        )
    return ok(drive)


def _mig(facts: Facts) -> Finding:
    cut = [gpu for gpu in facts.inventory.gpus if gpu.mig_enabled]
    if not cut:
        return skip("MIG is off, or these GPUs do not support it" if facts.has_gpu else NO_GPU)
    empty = [gpu for gpu in cut if not gpu.mig_instances]
    if empty:
        first = empty[0].index
        return fail(
            f"MIG is enabled on {', '.join(map(named, empty))}, but has no instances, "
            "so CUDA does not list it",
            f"to create an instance: `sudo nvidia-smi mig -i {first} -lgip` lists the sizes, and "
            f"`sudo nvidia-smi mig -i {first} -cgi ID -C` creates one of them",
            fix=f"sudo nvidia-smi -i {first} -mig 0   # turns MIG off: the GPU is undivided again",
        )
    count = sum(len(gpu.mig_instances) for gpu in cut)
    parts = f"{count} instance{'' if count == 1 else 's'}"
    return ok(f"MIG: {parts} on {len(cut)} GPU{'' if len(cut) == 1 else 's'}")


CHECKS = (
    Check("cards.reachable", "every GPU responds", _reachable),
    Check("cards.memory", "a GPU has memory left", _memory),
    Check("cards.display", "memory is kept for a display that a GPU drives", _display),
    Check("cards.mig", "a GPU with MIG enabled has instances", _mig),
)
