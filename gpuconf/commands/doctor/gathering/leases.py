"""Reads the lease ledger without changing it: makes no folder, takes no mutex, sweeps nothing."""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress

from gpuconf.commands.doctor.facts import LedgerFacts
from gpuconf.commands.doctor.gathering.files import under
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
from gpuconf.machine.leases.ledger import Ledger
from gpuconf.machine.leases.mutex import FILE as MUTEX
from gpuconf.machine.leases.reading import CardLeases, read_ledger

# The names that `folder_of` makes from UUIDs of GPUs and MIG instances; other folders may exist.
_CARD = re.compile(r"(GPU|MIG)[A-Za-z0-9_-]+")


def read_leases(*, root: str = "/", environ: Mapping[str, str]) -> dict[str, CardLeases]:
    """The leases on each GPU, as a plan counts them; none without a ledger."""
    defaults = tuple(under(root, path) for path in DEFAULTS)
    try:
        return read_ledger(Ledger(find_folder(environ, may_make=False, defaults=defaults)))
    except NoLedgerError:  # a check reports why
        return {}


def read_ledger_facts(*, root: str = "/", environ: Mapping[str, str] = os.environ) -> LedgerFacts:
    """The ledger that a program would find now; the default folders are those under ``root``."""
    named = environ.get(VARIABLE) or None
    defaults = tuple(under(root, path) for path in DEFAULTS)
    candidates = (named,) if named else defaults
    folder = _folder_in_use(environ, defaults)
    if folder is None:
        path = next((each for each in candidates if can_be_made(each)), None)
        private = path is not None and not named and is_private(path)
        faults = tuple(_faults(candidates, path))
        return LedgerFacts(named, path, is_private=private, faults=faults)
    found, room = os.stat(folder.path), os.statvfs(folder.path)
    is_open = found.st_mode & MODE == MODE
    problem = _mutex_problem(f"{folder.path}/{MUTEX}")
    leases: dict[str, CardLeases] = {}
    try:
        leases = read_ledger(Ledger(folder))
    except NoLedgerError as error:
        problem = str(error)
    return LedgerFacts(
        named,
        folder.path,
        is_there=True,
        is_read_only=folder.is_read_only,
        is_private=folder.is_private,
        faults=tuple(_faults(candidates, folder.path)),
        mode=stat.filemode(found.st_mode),
        is_open=is_open,
        is_roots=found.st_uid == 0,
        is_full=bool(room.f_files) and not room.f_favail,
        card_faults=tuple(_card_faults(folder.path, is_open=is_open)),
        problem=problem,
        granted=sum(len(each.granted) for each in leases.values()),
        waiting=sum(len(each.waiting) for each in leases.values()),
    )


def _folder_in_use(environ: Mapping[str, str], defaults: tuple[str, ...]) -> LedgerFolder | None:
    """The folder in which a program would lease; None if it would create one, or finds none."""
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
            why = "is not open to every user" if may_write else "is not writable"
            fault = FolderFault(candidate, "read_only", f"{candidate} {why}")
        if fault is not None and (path is None or fault.code != "missing"):
            yield fault


def _card_faults(path: str, *, is_open: bool) -> Iterator[FolderFault]:
    """Why no program, or not every program, can lease memory on a GPU."""
    with suppress(OSError), os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if _CARD.fullmatch(entry.name) is None:
                continue
            fault = fault_of(entry.path)
            if fault is None and is_open and entry.stat().st_mode & 0o007 != 0o007:
                words = f"{entry.path} is not open to every user"
                fault = FolderFault(entry.path, "read_only", words)
            if fault is not None:
                yield fault


def _mutex_problem(path: str) -> str | None:
    """Why the mutex cannot be opened, for example because someone else has put a link there."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))
    except FileNotFoundError:  # the first program creates it
        return None
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None
