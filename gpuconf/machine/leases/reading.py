"""Combine leases with NVML's figures: how much each holder has taken, and may still take.

    free for a lease = free - sum over the other leases of max(0, lease - what its holder uses)

The order of the queries matters: first which leases are alive, then who uses how much, then what is
free. A holder that takes memory in between is counted twice, which is safe; with a different order,
it would not be counted at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from gpuconf.basics.processes import exists, process_and_ancestors, stat_of, user_name
from gpuconf.basics.terminal import debug
from gpuconf.machine.cards.holders import Process, read_processes
from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess, Inventory
from gpuconf.machine.cards.nvml import read_inventory
from gpuconf.machine.leases.files import read_note, users_of
from gpuconf.machine.leases.folder import NoLedgerError, find_folder, is_container
from gpuconf.machine.leases.lease import Lease, Owner, folder_of, innermost_pid
from gpuconf.machine.leases.ledger import Ledger

# In a lease's note, before the name of the GPU's folder, in bytes.
_OTHERS = "others."  # in use without a lease
_MOST = "most."  # what the holder may take
# With more holders, only the two most likely orders are looked at: 7 have 5,040.
_MOST_TO_PERMUTE = 6


class CardLeases(NamedTuple):
    """A ledger's leases on one GPU, and the queue for that GPU."""

    granted: tuple[Lease, ...] = ()
    waiting: tuple[Lease, ...] = ()


def read_with_leases(read: Callable[[], Inventory] = read_inventory) -> Inventory:
    """Return the machine's GPUs with the leases on each, without the mutex: only for reading.

    Without a ledger, the GPUs are returned as ``read`` reports them.
    """
    try:
        ledger = Ledger(find_folder(may_make=False))
        found = read_ledger(ledger)
    except NoLedgerError as error:
        inventory = read()
        # Without GPUs there is nothing to lease; without the folder, nothing has been leased yet.
        if inventory.gpus and not error.is_missing:
            debug(f"leases are not counted: {error}")
        return inventory
    return with_leases(read(), found, ledger.owner)


def read_ledger(
    ledger: Ledger, *, before: int | None = None, sweep: bool = False
) -> dict[str, CardLeases]:
    """Return the leases on each GPU in ``ledger``; of those waiting, only ones with lower
    tickets."""
    return {
        card: CardLeases(
            tuple(ledger.leases(card, sweep=sweep)),
            tuple(ledger.waiting(card, before, sweep=sweep)),
        )
        for card in ledger.cards()
    }


def with_leases(
    inventory: Inventory,
    found: Mapping[str, CardLeases],
    reader: Owner,
    known: Mapping[int, Process] | None = None,
) -> Inventory:
    """Add the leases in ``found``, read before ``inventory``, to its GPUs, as ``reader`` sees them.

    ``known`` is what /proc shows about the processes that NVML lists, if that was already read.
    """
    if not any(any(each) for each in found.values()):
        return inventory
    in_container = is_container()
    if known is None:
        known = read_processes(inventory, in_container=in_container)

    def is_here(pid: int) -> bool:
        # In a container NVML's pids may be the host's; elsewhere /proc may hide other users'.
        return pid in known if in_container else exists(pid)

    def complete(gpu: Gpu) -> Gpu:
        leases = found.get(folder_of(gpu.uuid) if gpu.uuid else "", CardLeases())
        ahead = len({each.owner for each in leases.waiting})
        here = [each.pid for each in gpu.processes or () if is_here(each.pid)]
        # A driver that lists nobody, though memory is in use, says nothing about the holders.
        listed = None if gpu.used_bytes and not gpu.processes else gpu.processes
        described = describe_leases(leases.granted, listed, here, reader)
        described = _with_growth(described, leases.granted, _in_use(gpu))
        return gpu._replace(leases=described, ahead=ahead)

    return inventory.mapped(complete)


def describe_leases(
    granted: tuple[Lease, ...],
    processes: tuple[GpuProcess, ...] | None,
    here: Collection[int] | None,
    reader: Owner,
) -> tuple[CardLease, ...]:
    """Describe each lease on a GPU, with its holder's usage from the driver's process list.

    ``here`` holds the pids of the processes that are known to be in this pid namespace; None means
    all. A holder that is not among them may be one of the other processes. A holder in a namespace
    below this one, such as a container's, is identified by its pid there.
    """
    owners = _Owners([each.owner for each in granted], reader)
    for each in granted:
        owners.add_users(users_of(each), each.owner)
    ours = [each for each in processes or () if here is None or each.pid in here]
    is_whole = processes is not None and len(ours) == len(processes)
    used: dict[Owner, list[GpuProcess]] = {}
    if is_whole:
        used = {each.owner: [] for each in granted if not owners.is_elsewhere(each.owner)}
    for listed in ours:
        owner = owners.of(listed.pid)
        if owner is not None:
            used[owner] = [*used.get(owner, ()), listed]
    parents = set(process_and_ancestors(reader.pid)) - {reader.pid} if granted else set()
    return tuple(_described(each, used.get(each.owner), reader, parents) for each in granted)


def note_of_use(most: Mapping[Gpu, int | None]) -> dict[str, str]:
    """Return what the note in a new lease says about each GPU, for readers whose driver is silent.

    The note gives what is in use there without a lease, and ``most``, the bytes that the holder may
    take.
    """
    note = {}
    for gpu, most_bytes in most.items():
        if (in_use := _in_use(gpu)) is not None and gpu.uuid is not None:
            others = in_use - sum(each.used_bytes or 0 for each in gpu.leases)
            note[f"{_OTHERS}{folder_of(gpu.uuid)}"] = str(max(0, others))
            note[f"{_MOST}{folder_of(gpu.uuid)}"] = str(most_bytes)
    return note


def _in_use(gpu: Gpu) -> int | None:
    """Return what is in use of the GPU's memory; of one that it shares, also by the host."""
    if gpu.is_unified and gpu.total_bytes is not None and gpu.free_bytes is not None:
        return gpu.total_bytes - gpu.free_bytes
    return gpu.used_bytes


def _with_growth(
    described: tuple[CardLease, ...], granted: tuple[Lease, ...], used_bytes: int | None
) -> tuple[CardLease, ...]:
    """Attribute usage that the driver does not, based on the note of the latest lease that has one.

    Several patterns of growth could explain that figure. The holders are assigned the one that
    leaves the most of their leases unused, so that what each has reserved stays reserved. Memory
    that processes without a lease have started to use since then also counts.
    """
    others = {lease: size for lease in granted if (size := _noted(lease, _OTHERS)) is not None}
    if used_bytes is None or not others or all(each.used_bytes is not None for each in described):
        return described
    latest = max(others, key=lambda lease: lease.ticket)
    growth = used_bytes - others[latest] - sum(each.used_bytes or 0 for each in described)
    found = dict(zip(granted, described, strict=True))
    silent = [lease for lease in granted if found[lease].used_bytes is None]
    for lease, used in _least_leased(silent, max(0, growth)).items():
        found[lease] = found[lease]._replace(used_bytes=used, is_estimate=growth > 0)
    return tuple(found.values())


def _least_leased(holders: Sequence[Lease], growth: int) -> dict[Lease, int]:
    """Share ``growth`` among holders so that as little of it as possible falls within their leases.

    For each possible sharing, there is one of this kind with no more within the leases: each
    holder, in some order, takes all that it may take, until one takes the rest.
    """
    most = {lease: max(_noted(lease, _MOST) or 0, lease.size_bytes) for lease in holders}

    def shared(order: Sequence[Lease]) -> dict[Lease, int]:
        rest, taken = growth, {}
        for lease in order:
            taken[lease] = min(rest, most[lease])
            rest -= taken[lease]
        return taken

    by_share = sorted(holders, key=lambda each: (each.size_bytes / (most[each] or 1), each.ticket))
    by_room = sorted(holders, key=lambda each: (each.size_bytes - most[each], each.ticket))
    orders: Iterable[Sequence[Lease]] = (by_share, by_room)
    if len(holders) <= _MOST_TO_PERMUTE:
        orders = permutations(by_share)
    return min(
        map(shared, orders),
        key=lambda taken: sum(min(used, lease.size_bytes) for lease, used in taken.items()),
    )


def _noted(lease: Lease, name: str) -> int | None:
    figure = read_note(lease).get(f"{name}{os.path.basename(lease.folder)}", "")
    return int(figure) if figure.isdecimal() else None


class _Owners:
    """The holders of a GPU's leases, and which of them a process belongs to."""

    def __init__(self, owners: Collection[Owner], reader: Owner) -> None:
        self._reader = reader
        self._here = {each.pid: each for each in owners if not self.is_elsewhere(each)}
        self._elsewhere = {(e.pid, e.start): e for e in owners if self.is_elsewhere(e)}

    def add_users(self, pids: Collection[int], owner: Owner) -> None:
        """Assign processes that compute within a lease, whoever started them, to its holder."""
        self._here.update((pid, owner) for pid in pids if pid)

    def is_elsewhere(self, owner: Owner) -> bool:
        """Whether its pid belongs to a different pid namespace from the reader's."""
        return owner.namespace != self._reader.namespace

    def of(self, pid: int) -> Owner | None:
        """Return the holder that ``pid`` is or descends from; None for the reader and other
        processes.

        The reader's memory counts as its own, even if one of its parents holds a lease.
        """
        for each in process_and_ancestors(pid):
            if each in self._here:
                return self._here[each]
            stat = None if each in (0, 1, self._reader.pid) else stat_of(each)
            if stat is None:
                return None
            inner = innermost_pid(each) if self._elsewhere else None
            if inner is not None and (inner, stat.started) in self._elsewhere:
                return self._elsewhere[inner, stat.started]
        return None


def _described(
    lease: Lease, used: list[GpuProcess] | None, reader: Owner, parents: set[int]
) -> CardLease:
    sizes = [None] if used is None else [each.used_bytes for each in used]
    known = [size for size in sizes if size is not None]
    return CardLease(
        lease.owner.pid,
        lease.size_bytes,
        sum(known) if len(known) == len(sizes) else None,
        *note_of(lease),
        pids=None if used is None else tuple(each.pid for each in used),
        is_elsewhere=lease.owner.namespace != reader.namespace,
        is_parent=lease.owner.namespace == reader.namespace and lease.owner.pid in parents,
        most_bytes=_noted(lease, _MOST),
    )


class LeaseNote(NamedTuple):
    """What the lease's file says about its holder."""

    program: str | None
    user: str | None
    profile: str | None
    since: float | None
    is_ours: bool | None


def note_of(lease: Lease) -> LeaseNote:
    """Read who holds a lease, or waits for one."""
    note = read_note(lease)
    try:
        file = os.stat(lease.path, follow_symlinks=False)
    except OSError:  # it has just been released
        return LeaseNote(note.get("program"), None, note.get("profile"), None, None)
    user = user_name(file.st_uid)  # the owner of a file cannot be faked
    ours = file.st_uid == os.getuid()
    return LeaseNote(note.get("program"), user, note.get("profile"), file.st_mtime, ours)
