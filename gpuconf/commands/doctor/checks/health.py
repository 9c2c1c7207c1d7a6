"""Signs of a failing GPU, and of a compute mode that blocks programs."""

from __future__ import annotations

from collections.abc import Callable

from gpuconf.commands.doctor.checks.cards import named
from gpuconf.commands.doctor.checks.check import NO_GPU, Check, fail, ok, skip, warn
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding
from gpuconf.machine.cards import Gpu
from gpuconf.machine.cards.health import CardHealth

_XID_LIST = "NVIDIA's list: https://docs.nvidia.com/deploy/xid-errors/"


def _ecc(facts: Facts) -> Finding:
    if not facts.has_gpu:
        return skip(NO_GPU)
    found = [(gpu, facts.health.get(gpu.index, CardHealth())) for gpu in facts.inventory.gpus]
    failing = [gpu for gpu, health in found if health.remap_failed]
    if failing:
        return fail(
            f"{', '.join(map(named, failing))}: a bad row of memory can no longer be replaced",
            "results may be wrong; the manufacturer replaces such a GPU",
            fix=f"nvidia-smi -q -d ECC,ROW_REMAPPER -i {failing[0].index}",
        )
    due = [gpu for gpu, health in found if health.remap_pending or health.retirement_pending]
    wanted = [gpu for gpu, health in found if health.recovery in ("reset", "drain", "reboot")]
    if due or wanted:
        first = (due or wanted)[0]
        # A GPU that drives a display is in use and cannot be reset (nvidia-smi(1)).
        whole = any(health.recovery == "reboot" for _, health in found) or first.display_active
        return warn(
            f"{', '.join(map(named, due or wanted))} must be reset to exclude bad memory",
            "stop everything that uses it first",
            fix="sudo reboot" if whole else f"sudo nvidia-smi --gpu-reset -i {first.index}",
        )
    bad = [(gpu, health.uncorrected_errors) for gpu, health in found if health.uncorrected_errors]
    if bad:
        listed = ", ".join(f"{named(gpu)}: {count}" for gpu, count in bad)
        return warn(
            f"memory errors that could not be corrected since the driver started: {listed}",
            fix=f"nvidia-smi -q -d ECC,PAGE_RETIREMENT,ROW_REMAPPER -i {bad[0][0].index}",
        )
    if all(health.ecc_enabled is None for _, health in found):
        return skip("these GPUs have no ECC, or do not report it")
    return ok("no memory errors are reported")


def _xid(facts: Facts) -> Finding:
    xids = facts.system.xids
    if not facts.expects_gpu:
        return skip(NO_GPU)
    if xids is None:
        return skip(
            "this user has no permission to read the kernel's log", "sudo dmesg | grep -i xid"
        )
    if not xids:
        return ok("no Xid errors since the start")
    from gpuconf.support.failures.xids import known_xids  # slow import, and Xids are rare

    known = known_xids()
    serious = [xid for xid in xids if xid.number in known and known[xid.number].gpu_fault]
    if serious:
        last = serious[-1]
        where = f" on {last.pci_bus_id}" if last.pci_bus_id else ""
        meaning = known[last.number]
        return warn(
            f"Xid {last.number}{where} since the start: {meaning.means}",
            meaning.remedy,
            *[xid.line for xid in serious[-3:]],
            fix=meaning.command,
        )
    numbers = sorted({xid.number for xid in xids})
    unknown = [str(number) for number in numbers if number not in known]
    if unknown:
        return skip(
            f"Xid {', '.join(unknown)} since the start: gpuconf does not recognize it", _XID_LIST
        )
    meanings = [f"Xid {number}: {known[number].means}" for number in numbers]
    return ok(
        f"Xid {', '.join(map(str, numbers))} since the start: not a fault of the GPU", *meanings
    )


def _compute_mode(facts: Facts) -> Finding:
    if not facts.has_gpu:
        return skip(NO_GPU)
    modes = {gpu: facts.health.get(gpu.index, CardHealth()).compute_mode
             for gpu in facts.inventory.gpus}  # fmt: skip
    closed = _first(modes, lambda mode: mode == "prohibited")
    if closed is not None:
        return fail(
            f"{named(closed)} is in compute mode prohibited: no program can use it",
            fix=f"sudo nvidia-smi -i {closed.index} -c DEFAULT",
        )
    single = _first(modes, lambda mode: mode == "exclusive")
    if single is not None:
        return warn(
            f"{named(single)} is in exclusive mode: a second program finds it busy",
            "programs cannot share it, whatever their limits",
            fix=f"sudo nvidia-smi -i {single.index} -c DEFAULT",
        )
    if not any(modes.values()):
        return skip("the compute mode is not reported")
    return ok("every GPU accepts several programs at the same time")


def _first(modes: dict[Gpu, str | None], wanted: Callable[[str | None], bool]) -> Gpu | None:
    return next((gpu for gpu, mode in modes.items() if wanted(mode)), None)


CHECKS = (
    Check("cards.ecc", "no failing memory, and no pending reset", _ecc),
    Check("cards.xid", "the driver has logged no errors since the start", _xid),
    Check("cards.compute_mode", "programs may share a GPU", _compute_mode),
)
