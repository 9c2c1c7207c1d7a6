"""Ledgers of leases that the checks fault, and ledgers that they do not, as facts."""

from __future__ import annotations

from gpuconf.doctor.facts import (
    Facts,
    LeaseHolder,
    LedgerContents,
    LedgerFacts,
    LedgerFile,
    MutexFacts,
)
from gpuconf.hardware import CardLease, Inventory
from gpuconf.leases.folder import FaultCode, FolderFault
from gpuconf.units import GIB
from tests.doctor.doctor_machines import CARD as BUSY_CARD
from tests.doctor.doctor_machines import (
    PROFILE_FACTS,
    SOUND,
    SYSTEM,
    Case,
    leases,
    ledger,
)

FOLDER = "/run/gpuconf"
CARD = "GPU-0e8d35e3-0000-4000-8000-000000000000"
_HOLDER = LeaseHolder(CARD, 4242, 4 * GIB, state="S", user="alice", program="train.py")
_STOPPED = _HOLDER._replace(state="T")
_FOREIGN = _HOLDER._replace(is_foreign=True, state=None)
_SEEN = CardLease(4242, 4 * GIB, GIB, is_elsewhere=True)
_ELSEWHERE = LedgerContents("/dev/shm/gpuconf", "drwxrwxrwt", holders=(_HOLDER,))
_OURS = LedgerFile(f"{FOLDER}/{CARD}/lease.1.2.3.4.5", "alice")
_BOBS = tuple(
    LedgerFile(f"{FOLDER}/{CARD}/lease.{ticket}.2.3.4.5", "bob", may_remove=False)
    for ticket in range(1000)
)
_MUTEX = MutexFacts(f"{FOLDER}/mutex", held_s=3.2, holder=4242, name="python3", user="bob")


def _fault(code: FaultCode, path: str = FOLDER) -> FolderFault:
    return FolderFault(path, code, f"{path} is {code}")


def _without(*faults: FolderFault, named: str | None = None) -> Facts:
    """The sound machine without a folder for leases."""
    return SOUND._replace(ledger=LedgerFacts(named, faults=faults))


def _named(code: FaultCode) -> Facts:
    return _without(_fault(code, "/data/leases"), named="/data/leases")


def _in(container: str, facts: Facts) -> Facts:
    return facts._replace(system=SYSTEM._replace(container=container))


TROUBLES = (
    Case("leases.folder", "warn", "sudo mkdir -p -m 1777 /run/gpuconf",
         _without(_fault("missing"), _fault("missing", "/dev/shm/gpuconf"))),
    Case("leases.folder", "warn", "sudo chmod 1777 /run/gpuconf", _without(_fault("not_sticky"))),
    Case("leases.folder", "warn", "sudo chmod 1777 /run/gpuconf", _without(_fault("closed"))),
    Case("leases.folder", "warn", "sudo rm /run/gpuconf", _without(_fault("no_folder"))),
    Case("leases.folder", "warn", "sudo mkdir -p -m 1777 /data/leases", _named("missing")),
    Case("leases.folder", "warn", "sudo chmod 1777 /data/leases", _named("not_sticky")),
    Case("leases.folder", "warn", "unset GPUCONF_LEASES", _named("relative")),
    Case("leases.folder", "warn", "unset GPUCONF_LEASES", _named("no_folder")),
    Case("leases.folder", "warn", "unset GPUCONF_LEASES", _named("network")),
    Case("leases.folder", "warn", "because /run/gpuconf is not_sticky",
         ledger(path="/dev/shm/gpuconf", faults=(_fault("not_sticky"),))),
    Case("leases.folder", "warn", "sudo chmod 1777 /run/gpuconf",
         ledger(path="/dev/shm/gpuconf", faults=(_fault("read_only"),))),
    Case("leases.folder", "warn", "mount -o remount,rw /run/gpuconf", ledger(is_read_only=True)),
    Case("leases.folder", "warn", "chmod 1777 /run/gpuconf",
         ledger(is_read_only=True, contents=LedgerContents(FOLDER, "drwxr-xr-x", is_open=False))),
    Case("leases.folder", "warn", "df -i /run/gpuconf", leases(is_full=True)),
    Case("leases.mode", "warn", "sudo chmod 1777 /run/gpuconf",
         leases(mode="drwxr-xr-x", is_open=False)),
    Case("leases.mode", "warn", f"sudo chmod 1777 {FOLDER}/{CARD}",
         leases(faults=(_fault("not_sticky", f"{FOLDER}/{CARD}"),))),
    Case("leases.mode", "warn", f"ls -ld {FOLDER}/{CARD}",
         leases(faults=(_fault("no_folder", f"{FOLDER}/{CARD}"),))),
    Case("leases.mode", "warn", "Permission denied",
         ledger(mutex=MutexFacts(f"{FOLDER}/mutex", problem="Permission denied"))),
    Case("leases.left", "warn", "only bob or root can remove 1000 of them",
         leases(left=(_OURS, *_BOBS))),
    Case("leases.left", "warn", f"-m gpuconf.leases.sweep {FOLDER}", leases(left=_BOBS)),
    Case("leases.files", "warn", f"{FOLDER}/README",
         leases(strange=(LedgerFile(f"{FOLDER}/README", "bob"),))),
    Case("leases.files", "warn", "\\x1b[2J",
         leases(strange=(LedgerFile(f"{FOLDER}/\x1b[2J", "bob"),))),
    Case("leases.files", "warn", f"-m gpuconf.leases.sweep {FOLDER}",
         leases(crowded=(f"{FOLDER}/{CARD}",))),
    Case("leases.one_folder", "warn", "ps -fp 4242", ledger(others=(_ELSEWHERE,))),
    Case("leases.one_folder", "warn", "unset GPUCONF_LEASES",
         ledger(named="/data/leases", path="/data/leases", others=(_ELSEWHERE,))),
    Case("leases.shared", "warn", "docker run -v /run/gpuconf:/run/gpuconf --pid=host IMAGE",
         _in("docker", ledger(path="/dev/shm/gpuconf", is_private=True))),
    Case("leases.shared", "warn", "podman run -v /run/gpuconf:/run/gpuconf --pid=host IMAGE",
         _in("podman", ledger(path="/dev/shm/gpuconf", is_private=True))),
    Case("leases.shared", "warn", "kubectl explain pod.spec.hostPID",
         _in("kubernetes", ledger(path="/dev/shm/gpuconf", is_private=True))),
    Case("leases.shared", "warn", "docker run -v /run/gpuconf:/run/gpuconf --pid=host",
         _in("docker", ledger(path="/dev/shm/gpuconf", is_private=True, contents=None))),
    Case("leases.shared", "warn", "sudo mkdir -p -m 1777 /run/gpuconf",
         ledger(path="/dev/shm/gpuconf")._replace(environ={"SLURM_JOB_ID": "7"})),
    Case("leases.shared", "warn", "1 lease of another pid namespace count",
         leases(holders=(_FOREIGN,))),
    Case("leases.mutex", "warn", "sudo kill 4242", ledger(mutex=_MUTEX._replace(is_ours=False))),
    Case("leases.mutex", "warn", "then: kill 4242", ledger(mutex=_MUTEX)),
    Case("leases.mutex", "warn", "kill -CONT 4242", ledger(mutex=_MUTEX._replace(state="T"))),
    Case("leases.stopped", "warn", "pid 4242 train.py of alice leases 4096 MiB",
         leases(holders=(_STOPPED,))),
    Case("leases.stopped", "warn", "sudo kill -CONT 4242",
         leases(holders=(_STOPPED._replace(is_ours=False, is_waiting=True),))),
)  # fmt: skip

_NO_LEASES = PROFILE_FACTS._replace(leases=False)
SOUND_CASES = (
    Case("leases.folder", "ok", "/run/gpuconf is the ledger, with 1 lease, and 1 in line",
         leases(holders=(_HOLDER, _HOLDER._replace(is_waiting=True)))),
    Case("leases.folder", "ok", "is made when the first program leases",
         ledger(is_there=False, contents=None, mutex=None)),
    Case("leases.folder", "ok", "GPUCONF_LEASES names it", ledger(named=FOLDER)),
    Case("leases.folder", "skip", "leases no memory",
         _named("relative")._replace(profile=_NO_LEASES)),
    Case("leases.mode", "ok", "drwxrwxrwt", SOUND),
    Case("leases.mode", "ok", "drwx------",
         ledger(named=FOLDER, contents=LedgerContents(FOLDER, "drwx------", is_open=False))),
    Case("leases.mode", "skip", "no program has leased", ledger(contents=None, mutex=None)),
    Case("leases.left", "ok", "no file", SOUND),
    Case("leases.left", "ok", "removes 1 of them; 3 belong to other users",
         leases(left=(_OURS, *_BOBS[:3]))),
    Case("leases.files", "ok", "are leases", leases(left=(_OURS,))),
    Case("leases.one_folder", "ok", "no leases are elsewhere", SOUND),
    Case("leases.shared", "ok", "share /run/gpuconf", leases(holders=(_HOLDER,))),
    Case("leases.shared", "ok", "share /run/gpuconf",
         SOUND._replace(environ={"SLURM_JOB_ID": "7"})),
    Case("leases.shared", "skip", "leases no memory",
         ledger(is_private=True)._replace(profile=_NO_LEASES)),
    Case("leases.shared", "ok", "share /run/gpuconf",
         leases(holders=(_FOREIGN,))._replace(
             inventory=Inventory((BUSY_CARD._replace(leases=(_SEEN,)),)))),
    Case("leases.mutex", "ok", "nobody holds", SOUND),
    Case("leases.stopped", "ok", "is stopped", leases(holders=(_HOLDER, _FOREIGN))),
)  # fmt: skip
