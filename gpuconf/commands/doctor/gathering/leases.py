"""Reads the lease ledger without changing it: makes no folder, takes no mutex, sweeps nothing."""

from __future__ import annotations

import itertools
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gpuconf.basics.processes import stat_of, user_name, user_of
from gpuconf.basics.terminal import printable
from gpuconf.commands.doctor.facts import (
    LeaseHolder,
    LedgerContents,
    LedgerFacts,
    LedgerFile,
    MutexFacts,
)
from gpuconf.commands.doctor.gathering.files import under
from gpuconf.machine.cards import Inventory
from gpuconf.machine.leases.files import is_locked, read_note
from gpuconf.machine.leases.folder import (
    DEFAULTS,
    MODE,
    VARIABLE,
    FolderFault,
    LedgerFolder,
    NoLedgerError,
    can_be_made,
    fault_of,
    find_folder,
    is_private,
    is_shared,
)
from gpuconf.machine.leases.lease import UNFINISHED, Lease, folder_of, parse, this_process
from gpuconf.machine.leases.ledger import MOST_FILES, Ledger
from gpuconf.machine.leases.mutex import FILE as MUTEX
from gpuconf.machine.leases.view import CardLeases, read_ledger

# A program that binds holds the mutex while it queries NVML: milliseconds, or a second or two if
# that must load the driver first.
LONG_S = 3.0
_LOOK_EVERY_S = 0.1
# The names that `folder_of` makes from UUIDs of GPUs and MIG instances; other folders may exist.
_CARD = re.compile(r"(GPU|MIG)[A-Za-z0-9_-]+")


def read_leases(*, root: str = "/", environ: Mapping[str, str]) -> dict[str, CardLeases]:
    """The leases on each card, as a plan counts them; none without a ledger."""
    defaults = tuple(under(root, path) for path in DEFAULTS)
    try:
        return read_ledger(Ledger(find_folder(environ, may_make=False, defaults=defaults)))
    except NoLedgerError:  # a check reports why
        return {}


def read_ledger_facts(
    inventory: Inventory,
    *,
    root: str = "/",
    environ: Mapping[str, str] = os.environ,
    long_s: float = LONG_S,
) -> LedgerFacts:
    """The ledger that a program would find now; the default folders are those below ``root``.

    A held mutex is watched for up to ``long_s`` seconds.
    """
    named = environ.get(VARIABLE) or None
    defaults = tuple(under(root, path) for path in DEFAULTS)
    candidates = (named,) if named else defaults
    folder = _folder_in_use(environ, defaults)
    labels = _labels(inventory)
    facts = LedgerFacts(named, others=tuple(_others(folder, labels, defaults)))
    if folder is None:
        path = next((each for each in candidates if can_be_made(each)), None)
        private = path is not None and not named and is_private(path)
        faults = tuple(_faults(candidates, path))
        return facts._replace(path=path, is_private=private, faults=faults)
    return facts._replace(
        path=folder.path,
        is_there=True,
        is_read_only=folder.is_read_only,
        is_private=folder.is_private,
        faults=tuple(_faults(candidates, folder.path)),
        contents=_contents(folder.path, labels),
        mutex=_mutex(f"{folder.path}/{MUTEX}", long_s),
    )


def _folder_in_use(environ: Mapping[str, str], defaults: tuple[str, ...]) -> LedgerFolder | None:
    """The folder in which a program would lease; None if it would create one, or has none."""
    try:
        folder = find_folder(environ, may_make=False, defaults=defaults)
    except NoLedgerError:
        return None
    would_make = folder.is_read_only and not environ.get(VARIABLE)
    return None if would_make and any(map(can_be_made, defaults)) else folder


def _faults(candidates: tuple[str, ...], path: str | None) -> Iterator[FolderFault]:
    """The faults of the folders before ``path``; a missing one is not a fault."""
    for candidate in itertools.takewhile(lambda each: each != path, candidates):
        fault = fault_of(candidate, follow_links=len(candidates) == 1)
        if fault is None and not is_shared(candidate):
            may_write = os.access(candidate, os.W_OK)
            why = "is not open to every user" if may_write else "may not be written"
            fault = FolderFault(candidate, "read_only", f"{candidate} {why}")
        if fault is not None and (path is None or fault.code != "missing"):
            yield fault


def _others(
    folder: LedgerFolder | None, labels: Mapping[str, str], defaults: tuple[str, ...]
) -> Iterator[LedgerContents]:
    """Default folders other than the one in use that have leases of this machine's cards."""
    in_use = None if folder is None else os.path.realpath(folder.path)
    for path in defaults:
        if fault_of(path) is None and os.path.realpath(path) != in_use:
            contents = _contents(path, labels, only_labelled=True)
            if contents.holders:
                yield contents


def _labels(inventory: Inventory) -> dict[str, str]:
    """The name of each card and MIG instance for people, by its folder name in a ledger."""
    found = {}
    for gpu in inventory.gpus:
        instances = enumerate(gpu.mig_instances)
        labelled = [("", gpu), *((f".{place}", each) for place, each in instances)]
        found.update({folder_of(g.uuid): f"GPU {g.index}{rest}" for rest, g in labelled if g.uuid})
    return found


def _contents(
    path: str, labels: Mapping[str, str], *, only_labelled: bool = False
) -> LedgerContents:
    """The contents of the ledger ``path``, or only of its folders for labelled cards."""
    found, room = os.stat(path), os.statvfs(path)
    is_open = found.st_mode & MODE == MODE
    contents = LedgerContents(
        path,
        mode=stat.filemode(found.st_mode),
        is_open=is_open,
        is_roots=found.st_uid == 0,
        is_full=bool(room.f_files) and not room.f_favail,
    )
    for entry in _entries(path):
        if _CARD.fullmatch(entry.name) is None:
            if entry.name != MUTEX:
                contents = contents._replace(strange=(*contents.strange, _file(entry.path)))
        elif not only_labelled or entry.name in labels:
            fault = _card_fault(entry, is_open=is_open)
            if fault is not None:
                contents = contents._replace(faults=(*contents.faults, fault))
            if fault is None or fault.code not in ("no_folder", "closed"):
                contents = _with_card(contents, entry, labels.get(entry.name, entry.name))
    return contents


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The entries of ``folder``, by name; of very many, one more than a ledger reads."""
    with suppress(OSError), os.scandir(folder) as entries:
        return sorted(itertools.islice(entries, MOST_FILES + 1), key=lambda entry: entry.name)
    return []


def _card_fault(entry: os.DirEntry[str], *, is_open: bool) -> FolderFault | None:
    """Why nobody, or not everybody, can lease memory on a card."""
    fault = fault_of(entry.path)
    if fault is not None or not is_open:
        return fault
    if entry.stat(follow_symlinks=False).st_mode & 0o007 != 0o007:
        return FolderFault(entry.path, "read_only", f"{entry.path} is not open to every user")
    return None


def _with_card(contents: LedgerContents, card: os.DirEntry[str], label: str) -> LedgerContents:
    """Add the contents of a card's folder to ``contents``."""
    holders: list[LeaseHolder] = []
    left: list[LedgerFile] = []
    strange: list[LedgerFile] = []
    entries = _entries(card.path)
    is_crowded = len(entries) > MOST_FILES
    own, unfinished = this_process(), f"{UNFINISHED}{os.getpid()}."
    for entry in () if is_crowded else entries:
        lease = parse(card.path, entry.name)
        if entry.name.startswith(unfinished):
            continue  # our own file: closing it would release its lock, like that of our own lease
        is_own = lease is not None and lease.owner == own
        if (lease is None and not entry.name.startswith(UNFINISHED)) or not _is_readable(entry):
            strange.append(_file(entry.path))
        elif not is_own and not is_locked(entry.path):
            left.append(_file(entry.path))
        elif lease is not None:
            holders.append(_holder(lease, label, is_own=is_own))
    return contents._replace(
        holders=(*contents.holders, *holders),
        left=(*contents.left, *left),
        strange=(*contents.strange, *strange),
        crowded=(*contents.crowded, *((card.path,) if is_crowded else ())),
    )


def _is_readable(entry: os.DirEntry[str]) -> bool:
    """Whether its lock can be queried; True if it has just disappeared."""
    if not entry.is_file(follow_symlinks=False):
        return not os.path.lexists(entry.path)
    return os.access(entry.path, os.R_OK) or not os.path.lexists(entry.path)


def _file(path: str) -> LedgerFile:
    try:
        file, folder = os.lstat(path), os.stat(os.path.dirname(path))
    except OSError:  # it has just disappeared
        return LedgerFile(path)
    is_free = not folder.st_mode & stat.S_ISVTX
    may_remove = is_free or os.geteuid() in (0, file.st_uid, folder.st_uid)
    return LedgerFile(path, user_name(file.st_uid), may_remove)


def _holder(lease: Lease, card: str, *, is_own: bool) -> LeaseHolder:
    """The holder of a live lease; its self-chosen name is escaped."""
    owner = lease.owner
    is_foreign = owner.namespace != this_process().namespace
    stat = None if is_foreign else stat_of(owner.pid)
    is_same = stat is not None and stat.started == owner.start
    uid: int | None = None
    with suppress(OSError):
        uid = os.lstat(lease.path).st_uid
    return LeaseHolder(
        card,
        owner.pid,
        lease.size_bytes,
        is_waiting=lease.is_waiting,
        is_foreign=is_foreign,
        state=stat.state if stat is not None and is_same else None,
        user=None if uid is None else user_name(uid),
        is_ours=uid in (None, os.geteuid()),
        program=None if is_own else read_note(lease).get("program"),
    )


def _mutex(path: str, long_s: float) -> MutexFacts:
    """The mutex; it is opened for reading and not locked."""
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags)
    except FileNotFoundError:  # the first program creates it
        return MutexFacts(path)
    except OSError as error:
        return MutexFacts(path, problem=error.strerror)
    try:
        began = time.monotonic()
        holder = _long_holder(descriptor, began + long_s)
    finally:
        os.close(descriptor)
    if holder is None:
        return MutexFacts(path)
    stat, uid = stat_of(holder), user_of(holder)
    return MutexFacts(
        path,
        held_s=time.monotonic() - began,
        holder=holder,
        name=None if stat is None else printable(stat.name),
        user=None if uid is None else user_name(uid),
        state=None if stat is None else stat.state,
        is_ours=uid in (None, os.geteuid()),
    )


def _long_holder(descriptor: int, until: float) -> int | None:
    """The process that holds the lock from now until ``until``."""
    holder = holder_of(descriptor)
    while holder is not None and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
        if holder_of(descriptor) != holder:
            return None
    return holder


def holder_of(descriptor: int) -> int | None:
    """Return the process that holds a flock on this file, from /proc/locks; None if unknown.

    Example of a line: ``1: FLOCK  ADVISORY  WRITE 123 08:01:456 0 EOF``.
    """
    found = os.fstat(descriptor)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with suppress(OSError, ValueError), open("/proc/locks", encoding="ascii") as file:
        for fields in map(str.split, file):
            if fields[1:2] == ["FLOCK"] and fields[5:6] == [place]:
                return int(fields[4]) or None
    return None
