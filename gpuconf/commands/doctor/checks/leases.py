"""The lease ledger: whether every program can use it, and whether all programs share one.

Without a ledger a program still starts, and plans with the free memory that NVML reports.
"""

from __future__ import annotations

import shlex

from gpuconf.commands.doctor.checks.check import Check, ok, skip, warn
from gpuconf.commands.doctor.checks.ledger import MOST_SHOWN, described, of_contents, of_ledger
from gpuconf.commands.doctor.facts import Facts, LeaseHolder, LedgerContents, LedgerFacts
from gpuconf.commands.doctor.finding import Finding
from gpuconf.machine.leases.folder import DEFAULTS, VARIABLE, FolderFault

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
            f"{ledger.path} is not writable: others' leases count, but nothing is leased here",
            fix=_way_to_write(ledger),
        )
    if ledger.contents is not None and ledger.contents.is_full:
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
    if ledger.contents is None:
        return f"{ledger.path} is made when the first program leases memory"
    leases = [each for each in ledger.contents.holders if not each.is_waiting]
    waiting = len(ledger.contents.holders) - len(leases)
    line = f", and {waiting} in line" if waiting else ""
    plural = "" if len(leases) == 1 else "s"
    return f"{ledger.path} is the ledger, with {len(leases)} lease{plural}{line}"


def _why(ledger: LedgerFacts) -> str:
    if ledger.named:
        return f"{VARIABLE} names it"
    found = "that can be used" if ledger.is_there else "that can be made"
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
    if ledger.contents is not None and ledger.contents.is_open:  # so the mount is read-only
        return f"sudo mount -o remount,rw {path}"
    return _OPEN.format(path)


def _mode(contents: LedgerContents, ledger: LedgerFacts) -> Finding:
    mutex = ledger.mutex
    if mutex is not None and mutex.problem is not None:
        path = shlex.quote(mutex.path)
        return warn(
            f"nothing can be leased: {mutex.path}: {mutex.problem}",
            fix=f"ls -l {path}   # then: sudo rm {path}",
        )
    if contents.faults:
        codes = {each.code for each in contents.faults}
        paths = " ".join(shlex.quote(each.path) for each in contents.faults)
        return warn(
            "; ".join(each.sentence for each in contents.faults[:MOST_SHOWN]),
            "on such a card nothing is leased, or not by everybody",
            fix=f"ls -ld {paths}   # then: sudo rm -r what is not a folder"
            if "no_folder" in codes
            else _OPEN.format(paths),
        )
    if not contents.is_open and (not ledger.named or contents.is_roots):
        return warn(
            f"{contents.path} is {contents.mode}, so not every user can lease memory in it",
            fix=_OPEN.format(shlex.quote(contents.path)),
        )
    if not contents.is_open:
        return ok(f"{contents.path} is {contents.mode}: the programs of one user share it")
    return ok(f"{contents.path} is {contents.mode}, and the folders of cards are open too")


def _one_folder(ledger: LedgerFacts, _: Facts) -> Finding:
    if not ledger.others:
        return ok("no leases are elsewhere")
    other = ledger.others[0]
    leases = f"{len(other.holders)} lease{'' if len(other.holders) == 1 else 's'}"
    if ledger.named:
        return warn(
            f"{VARIABLE}={ledger.named} hides {leases} of these cards in {other.path}",
            fix=f"unset {VARIABLE}",
        )
    holders = ",".join(str(each.pid) for each in other.holders[:MOST_SHOWN])
    return warn(
        f"{leases} of these cards are in {other.path}, while programs now use {ledger.path}",
        "they are counted; but two programs that use different folders do not wait for each other",
        *described(other.holders),
        fix=f"ps -fp {holders}   # when these have ended, only {ledger.path} is used",
    )


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
            "Slurm's job_container and namespace plugins give each job a /dev/shm of its own",
            fix=f"{_MAKE.format(_BEST)}   # on the node, by its administrator",
        )
    foreign = _counted_in_full(ledger, facts)
    if foreign:
        plural = "" if len(foreign) == 1 else "s"
        return warn(
            f"{len(foreign)} lease{plural} of another pid namespace count in full: how much "
            "their holders have taken is not known here",
            *described(foreign),
            fix=_in_container(facts, path),
        )
    return ok(f"the programs of this machine share {path}")


def _counted_in_full(ledger: LedgerFacts, facts: Facts) -> list[LeaseHolder]:
    """Leases from other PID namespaces whose processes are unknown here."""
    every = [each for gpu in facts.inventory.gpus for each in (gpu, *gpu.mig_instances)]
    leases = [lease for gpu in every for lease in gpu.leases if lease.is_elsewhere]
    known = {lease.pid for lease in leases if lease.used_bytes is not None}
    return [
        each
        for each in (ledger.contents.holders if ledger.contents else ())
        if each.is_foreign and not each.is_waiting and each.pid not in known
    ]


def _in_container(facts: Facts, path: str) -> str:
    pattern = _IN_CONTAINERS.get(facts.system.container or "", _CONTAINER)
    return pattern.format(shlex.quote(path))


CHECKS = (
    Check("leases.folder", "there is a folder for leases", of_ledger(_folder)),
    Check(
        "leases.mode",
        "every user can lease, and nobody can remove another's leases",
        of_contents(_mode),
    ),
    Check("leases.one_folder", "all programs lease in one folder", of_ledger(_one_folder)),
    Check("leases.shared", "containers and jobs share the leases", of_ledger(_shared)),
)
