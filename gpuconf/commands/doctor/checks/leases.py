"""The lease ledger: whether every program can use it, and whether all programs share one.

Without a ledger a program still starts, and bases its plan on the free memory that NVML reports.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from gpuconf.basics.terminal import printable
from gpuconf.basics.units import sized
from gpuconf.commands.doctor.checks.check import NO_GPU, Check, ok, skip, warn
from gpuconf.commands.doctor.facts import Facts, LedgerFacts
from gpuconf.commands.doctor.finding import Finding
from gpuconf.machine.cards import CardLease
from gpuconf.machine.leases.folder import DEFAULTS, VARIABLE, FolderFault
from gpuconf.planner.other_leases import holder

_BEST = DEFAULTS[0]
_MAKE = "sudo mkdir -p -m 1777 {}"
_OPEN = "sudo chmod 1777 {}"
_CONTAINER = "docker run -v {0}:{0} --pid=host IMAGE"
_IN_CONTAINERS = {
    "podman": "podman run -v {0}:{0} --pid=host IMAGE",
    "kubernetes": "kubectl explain pod.spec.hostPID   # true, and {0} as a hostPath volume",
}
_SLURM = "SLURM_JOB_ID"
_SHARED_MEMORY = "/dev/shm/"
_MOST_SHOWN = 4


def _of_ledger(judge: Callable[[LedgerFacts, Facts], Finding]) -> Callable[[Facts], Finding]:
    """Apply ``judge`` only if programs can lease: a GPU is expected, and the ledger was read."""

    def judged(facts: Facts) -> Finding:
        if not facts.expects_gpu:
            return skip(NO_GPU)
        if facts.system.is_windows:
            return skip("reservations do not work on Windows")
        if facts.ledger is None:
            return skip("the ledger of leases is unknown")
        found = judge(facts.ledger, facts)
        # Any user can create file names in a ledger, and escape sequences would control the
        # terminal.
        detail = tuple(map(printable, found.detail))
        return found._replace(summary=printable(found.summary), detail=detail)

    return judged


def _folder(ledger: LedgerFacts, facts: Facts) -> Finding:
    if facts.profile.leases is False:
        return skip(f"profile {facts.profile.name} leases no memory")
    if ledger.path is None:
        return warn(
            "no memory can be leased: " + "; ".join(each.sentence for each in ledger.faults),
            "programs plan with NVML's free memory, so two that start together take it twice",
            fix=_way_to_a_folder(ledger),
        )
    if ledger.faults:
        return warn(
            f"{ledger.path} is used for leases, because {ledger.faults[0].sentence}",
            *[each.sentence for each in ledger.faults[1:]],
            fix=_cure(ledger.faults[0]),
        )
    if ledger.is_read_only:
        return warn(
            f"{ledger.path} is not writable: others' leases are respected, but nothing is "
            "leased here",
            fix=_way_to_write(ledger),
        )
    if ledger.is_full:
        return warn(
            f"{ledger.path} has no room for another file, so nothing can be leased",
            fix=f"df -i {shlex.quote(ledger.path)}   # then remove what fills it",
        )
    detail = [_why(ledger)]
    if ledger.path.startswith("/dev/shm/") and not ledger.named:
        detail.append(
            "a user's last logout may remove their leases there (systemd's RemoveIPC): for several "
            f"users {_MAKE.format(_BEST)}"
        )
    return ok(_chosen(ledger), *detail)


def _chosen(ledger: LedgerFacts) -> str:
    if not ledger.is_there:
        return f"{ledger.path} is created when the first program leases memory"
    line = f", and {ledger.waiting} waiting" if ledger.waiting else ""
    plural = "" if ledger.granted == 1 else "s"
    return f"{ledger.path} is the ledger, with {ledger.granted} lease{plural}{line}"


def _why(ledger: LedgerFacts) -> str:
    if ledger.named:
        return f"{VARIABLE} names it"
    found = "that can be used" if ledger.is_there else "that can be created"
    return f"the first of {', '.join(DEFAULTS)} {found}"


def _way_to_a_folder(ledger: LedgerFacts) -> str:
    """The command that creates a folder if none is usable."""
    fault = ledger.faults[0] if ledger.faults else FolderFault(_BEST, "missing", "")
    return _cure(fault)


def _cure(fault: FolderFault) -> str:
    path = shlex.quote(fault.path)
    if fault.code == "missing":
        return _MAKE.format(path)
    if fault.code in ("not_sticky", "closed", "read_only"):
        return _OPEN.format(path)
    if fault.path in DEFAULTS:
        return f"ls -ld {path}   # then: sudo rm {path}"
    return f"unset {VARIABLE}"  # relative, not a folder, or on a network file system


def _way_to_write(ledger: LedgerFacts) -> str:
    path = shlex.quote(ledger.path or _BEST)
    if ledger.is_open:  # so the mount is read-only
        return f"sudo mount -o remount,rw {path}"
    return _OPEN.format(path)


def _mode(ledger: LedgerFacts, _: Facts) -> Finding:
    if not ledger.is_there:
        return skip("no program has reserved memory yet" if ledger.path else "there is no ledger")
    path = shlex.quote(ledger.path or "")
    if ledger.problem is not None:
        return warn(
            f"nothing can be leased: {ledger.problem}",
            fix=f"ls -lR {path} | head -40   # then remove what is in the way",
        )
    if ledger.card_faults:
        codes = {each.code for each in ledger.card_faults}
        paths = " ".join(shlex.quote(each.path) for each in ledger.card_faults)
        return warn(
            "; ".join(each.sentence for each in ledger.card_faults[:_MOST_SHOWN]),
            "on such a GPU nothing is leased, or not by everybody",
            fix=f"ls -ld {paths}   # then: sudo rm -r what is not a folder"
            if "no_folder" in codes
            else _OPEN.format(paths),
        )
    if not ledger.is_open and (not ledger.named or ledger.is_roots):
        return warn(
            f"{ledger.path} is {ledger.mode}, so not every user can lease memory in it",
            fix=_OPEN.format(path),
        )
    if not ledger.is_open:
        return ok(f"{ledger.path} is {ledger.mode}: the programs of one user share it")
    return ok(f"{ledger.path} is {ledger.mode}, and the folders of GPUs are open too")


def _shared(ledger: LedgerFacts, facts: Facts) -> Finding:
    if facts.profile.leases is False:
        return skip(f"profile {facts.profile.name} leases no memory")
    path = ledger.path
    if path is None:
        return skip("there is no ledger")
    if ledger.is_private:
        return warn(
            f"leases are shared only within this container: {path} is its own",
            f"on the host first: {_MAKE.format(_BEST)}",
            "without --pid=host gpuconf only estimates what their holders use",
            fix=_in_container(facts, _BEST),
        )
    if facts.environ.get(_SLURM) and path.startswith(_SHARED_MEMORY):
        return warn(
            f"leases may be shared only within this Slurm job: they are in {path}",
            "Slurm's job_container and namespace plugins give each job its own /dev/shm",
            fix=f"{_MAKE.format(_BEST)}   # on the node, by its administrator",
        )
    foreign = _counted_in_full(facts)
    if foreign:
        plural = "" if len(foreign) == 1 else "s"
        return warn(
            f"{len(foreign)} lease{plural} from another PID namespace, counted in full: how much "
            "their holders use is not known here",
            *(f"{holder(each)} leases {sized(each.lease_bytes)}" for each in foreign[:_MOST_SHOWN]),
            fix=_in_container(facts, path),
        )
    return ok(f"the programs of this machine share {path}")


def _counted_in_full(facts: Facts) -> list[CardLease]:
    """Leases from other PID namespaces whose processes are unknown here."""
    every = [each for gpu in facts.inventory.gpus for each in (gpu, *gpu.mig_instances)]
    leases = [lease for gpu in every for lease in gpu.leases]
    return [lease for lease in leases if lease.is_elsewhere and lease.used_bytes is None]


def _in_container(facts: Facts, path: str) -> str:
    pattern = _IN_CONTAINERS.get(facts.system.container or "", _CONTAINER)
    return pattern.format(shlex.quote(path))


CHECKS = (
    Check("leases.folder", "there is a folder for leases", _of_ledger(_folder)),
    Check(
        "leases.mode",
        "every user can lease, and nobody can remove another's leases",
        _of_ledger(_mode),
    ),
    Check("leases.shared", "containers and jobs share the leases", _of_ledger(_shared)),
)
