"""The leases beside NVML's figures: what each holder has taken of its lease, and what is to come.

    free for a lease = free - sum over the other leases of max(0, lease - what its holder uses)

The order of the questions matters: which leases live, then who uses how much, then what is free.
A holder that takes memory in between is counted twice, which is careful; in another order it would
not be counted at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from gpuconf.hardware.holders import read_processes, user_name
from gpuconf.hardware.inventory import CardLease, Gpu, Inventory
from gpuconf.hardware.nvml import read_inventory
from gpuconf.leases.files import read_note
from gpuconf.leases.folder import NoLedgerError, find_folder, is_container
from gpuconf.leases.lease import Lease, Owner, folder_of, stat_of
from gpuconf.leases.ledger import Ledger
from gpuconf.terminal import debug

_MOST_GENERATIONS = 32  # between a holder and the process of its that computes


class CardLeases(NamedTuple):
    """What a ledger says of one card."""

    granted: tuple[Lease, ...] = ()
    waiting: tuple[Lease, ...] = ()


def read_with_leases(read: Callable[[], Inventory] = read_inventory) -> Inventory:
    """The machine's GPUs with the leases on each, without the mutex: to look, not to take.

    Where there is no ledger they are as ``read`` gives them.
    """
    try:
        ledger = Ledger(find_folder(may_make=False))
        found = read_ledger(ledger)
    except NoLedgerError as error:
        inventory = read()
        if inventory.gpus:  # else there is nothing to lease either
            debug(f"leases are not counted: {error}")
        return inventory
    return with_leases(read(), found, ledger.owner)


def read_ledger(
    ledger: Ledger, *, before: int | None = None, sweep: bool = False
) -> dict[str, CardLeases]:
    """What ``ledger`` says of each card; of those that wait, only whose ticket is lower."""
    return {
        card: CardLeases(
            tuple(ledger.leases(card, sweep=sweep)),
            tuple(ledger.waiting(card, before, sweep=sweep)),
        )
        for card in ledger.cards()
    }


def with_leases(inventory: Inventory, found: Mapping[str, CardLeases], reader: Owner) -> Inventory:
    """``inventory`` with what ``found`` says of each card, read before it; seen by ``reader``."""
    if not any(found.values()):
        return inventory
    # Only where NVML's pids can be this namespace's: in a container they may be the host's.
    known = read_processes(inventory, in_container=is_container())

    def complete(gpu: Gpu) -> Gpu:
        instances = tuple(map(complete, gpu.mig_instances))
        here = found.get(folder_of(gpu.uuid) if gpu.uuid else "", CardLeases())
        leases = _on_card(gpu, here.granted, known.keys(), reader)
        ahead = len({each.owner for each in here.waiting})
        return gpu._replace(mig_instances=instances, leases=leases, ahead=ahead)

    return inventory._replace(gpus=tuple(map(complete, inventory.gpus)))


def _on_card(
    gpu: Gpu, granted: tuple[Lease, ...], known: Collection[int], reader: Owner
) -> tuple[CardLease, ...]:
    holders = {each.owner.pid for each in granted if each.owner.namespace == reader.namespace}
    used: dict[int, int | None] = dict.fromkeys(holders, None if gpu.processes is None else 0)
    for listed in gpu.processes or ():
        holder = _holder_of(listed.pid, holders, reader.pid) if listed.pid in known else None
        if holder is not None:
            before = used[holder]
            unknown = before is None or listed.used_bytes is None
            used[holder] = None if unknown else (before or 0) + (listed.used_bytes or 0)
    return tuple(_described(each, used, reader) for each in granted)


def _holder_of(pid: int, holders: Collection[int], reader: int) -> int | None:
    """The holder that ``pid`` is, or descends from; None for another's, and for the reader's.

    The reader's own memory is its own, even where a parent of it holds a lease.
    """
    for _ in range(_MOST_GENERATIONS):
        if pid in holders:
            return pid
        fields = None if pid in (0, 1, reader) else stat_of(pid)
        if fields is None:
            return None
        pid = int(fields[1])
    return None


def _described(lease: Lease, used: Mapping[int, int | None], reader: Owner) -> CardLease:
    note = read_note(lease)
    pid = lease.owner.pid
    try:
        file = os.stat(lease.path, follow_symlinks=False)
    except OSError:  # it has just been released
        file = None
    return CardLease(
        pid=pid,
        lease_bytes=lease.size_bytes,
        used_bytes=used[pid] if lease.owner.namespace == reader.namespace else None,
        program=note.get("program"),
        user=None if file is None else user_name(file.st_uid),  # nobody can pretend to be another
        profile=note.get("profile"),
        since=None if file is None else file.st_mtime,
    )
