"""Combine the ledger with NVML and /proc: who is using memory on each GPU.  Read-only."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from gpuconf.basics.terminal import printable
from gpuconf.commands.ps.document import (
    GpuUsage,
    Holdings,
    LeaseBar,
    LedgerState,
    LinePlace,
    ProcessUsage,
    UserHoldings,
    WaitingProcess,
)
from gpuconf.machine.cards import CardLease, Gpu, GpuProcess, Inventory
from gpuconf.machine.cards.holders import Process, holders_of, read_processes
from gpuconf.machine.cards.utilization import read_inventory_and_utilization
from gpuconf.machine.leases.files import is_locked
from gpuconf.machine.leases.folder import (
    NoLedgerError,
    find_folder,
    is_container,
)
from gpuconf.machine.leases.lease import Lease, Owner, folder_of, this_process
from gpuconf.machine.leases.ledger import Ledger
from gpuconf.machine.leases.reading import (
    CardLeases,
    describe_leases,
    note_of,
    read_ledger,
    with_leases,
)
from gpuconf.machine.policy import Policy, Rule, current_user, read_policy

_NO_LEDGER_YET = "no program here has reserved memory yet"


def read_holdings() -> Holdings:
    """Return all users' holdings from the ledger, then NVML, then /proc.

    The order matters: see `gpuconf.machine.leases.reading`.  The ledger's mutex is not taken.
    """
    state, found = _read_ledger()
    reader = this_process()
    inventory = read_inventory_and_utilization()
    known = read_processes(inventory, in_container=is_container())
    inventory = with_leases(inventory, found, reader, known)
    cards = [_card(label, gpu, known) for label, gpu in _devices(inventory)]
    listed = {folder_of(each.uuid) for each in cards if each.uuid}
    cards += _unlisted(found, listed, reader)
    return Holdings(
        made_at=_moment(time.time()) or "",
        cards=tuple(cards),
        waiting=_waiting(cards, found, reader),
        ledger=state,
        problem=inventory.problem,
        policy=policy_line(read_policy(current_user())),
    )


def policy_line(policy: Policy | None) -> str | None:
    """Return what to say about the administrator's policy; None if it does not limit this user."""
    if policy is None:
        return None
    has_limit = any(rule != Rule() for rules in policy.rules for rule in rules)
    if not (policy.problem or has_limit):
        return None
    limits = f"{policy.path} limits your programs together: gpuconf plan shows what it leaves"
    return policy.problem or limits


def summed_up(holdings: Holdings) -> Holdings:
    """Return the holdings, with each other user's processes combined into one total per GPU."""
    return holdings._replace(cards=tuple(map(_card_summed_up, holdings.cards)))


def _card_summed_up(card: GpuUsage) -> GpuUsage:
    others: dict[str | None, list[ProcessUsage]] = {}
    for each in card.processes:
        if not each.is_ours:
            others.setdefault(each.user, []).append(each)
    sums = (
        UserHoldings(
            user,
            len(each),
            sum(one.lease_bytes or 0 for one in each) or None,
            _sum([one.used_bytes for one in each]),
        )
        for user, each in others.items()
    )
    return card._replace(
        processes=tuple(each for each in card.processes if each.is_ours), others=tuple(sums)
    )


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _read_ledger() -> tuple[LedgerState, dict[str, CardLeases]]:
    try:
        folder = find_folder(may_make=False)
        found = read_ledger(Ledger(folder))
    except NoLedgerError as error:
        problem = _NO_LEDGER_YET if error.is_missing else f"no lease can be seen: {error}"
        return LedgerState(problem=problem), {}
    return LedgerState(folder.path, is_private=folder.is_private), found


def _devices(inventory: Inventory) -> Iterator[tuple[str, Gpu]]:
    """Yield each GPU with its label, or its MIG instances instead if it has any."""
    for gpu in inventory.gpus:
        if not gpu.mig_instances:
            yield str(gpu.index), gpu
        for place, instance in enumerate(gpu.mig_instances):
            yield f"{gpu.index}.{place}", instance


def _card(label: str, gpu: Gpu, known: Mapping[int, Process]) -> GpuUsage:
    processes = sorted(_processes(gpu, known), key=_rank)
    return GpuUsage(
        label,
        gpu.index,
        mig_ids=gpu.mig_ids,
        uuid=gpu.uuid,
        name=gpu.name,
        total_bytes=gpu.total_bytes,
        free_bytes=gpu.free_bytes,
        bar=_bar(gpu, processes),
        lists_processes=gpu.processes is not None,
        unlisted_bytes=_unlisted_bytes(gpu),
        estimated_bytes=sum(lease.used_bytes or 0 for lease in gpu.estimated) or None,
        processes=tuple(processes),
        busy_percent=gpu.busy_percent,
    )


def _processes(gpu: Gpu, known: Mapping[int, Process]) -> Iterator[ProcessUsage]:
    """Yield the leases, then the processes that use memory without one."""
    for lease in gpu.leases:
        holding = _leased(lease._replace(used_bytes=None) if lease in gpu.estimated else lease)
        yield holding._replace(busy_percent=_busy_percent(gpu, lease.pids))
    for listed, process in holders_of(gpu._replace(processes=gpu.unleased), known) or ():
        yield _unleased(listed, process)


def _busy_percent(gpu: Gpu, pids: tuple[int, ...] | None) -> int | None:
    """Return how busy these processes are in total; None if it is unknown."""
    if pids is None or gpu.processes is None or gpu.busy_percent is None:
        return None
    busy = _sum([each.busy_percent for each in gpu.processes if each.pid in pids])
    return None if busy is None else min(busy, 100)


def _leased(lease: CardLease) -> ProcessUsage:
    return ProcessUsage(
        lease.pid,
        user=lease.user,
        program=lease.program,
        profile=lease.profile,
        lease_bytes=lease.lease_bytes,
        most_bytes=lease.most_bytes,
        used_bytes=lease.used_bytes,
        is_estimate=lease.is_estimate,
        since=_moment(lease.since),
        is_ours=lease.is_ours,
        is_elsewhere=lease.is_elsewhere,
        pids=lease.pids,
    )


def _unleased(listed: GpuProcess, process: Process) -> ProcessUsage:
    return ProcessUsage(
        listed.pid,
        user=process.user,
        program=process.program or listed.name,
        profile=process.profile,
        used_bytes=listed.used_bytes,
        since=_moment(process.started),
        kind=listed.kind,
        busy_percent=listed.busy_percent,
        is_ours=process.is_ours,
        pids=(listed.pid,),
    )


def _rank(each: ProcessUsage) -> tuple[bool, int, int]:
    """Sort this user's processes first, then by size."""
    return not each.is_ours, -max(each.lease_bytes or 0, each.used_bytes or 0), each.pid


def _bar(gpu: Gpu, processes: list[ProcessUsage]) -> LeaseBar | None:
    if gpu.total_bytes is None or gpu.free_bytes is None:
        return None
    used = max(gpu.total_bytes - gpu.free_bytes, 0)
    ours = sum(each.used_bytes or 0 for each in processes if each.is_ours)
    if all(lease.is_ours for lease in gpu.estimated):
        ours += sum(lease.used_bytes or 0 for lease in gpu.estimated)
    ours = min(used, ours)
    promised = min(gpu.promised_bytes, gpu.free_bytes)
    return LeaseBar(used - ours, ours, promised, gpu.free_bytes - promised)


def _unlisted_bytes(gpu: Gpu) -> int | None:
    """Return the memory in use that the driver's list does not cover; None if it lacks a size."""
    if gpu.total_bytes is None or gpu.free_bytes is None or gpu.processes is None or gpu.is_unified:
        return None
    listed = _sum([each.used_bytes for each in gpu.processes])
    return None if listed is None else max(gpu.total_bytes - gpu.free_bytes - listed, 0)


def _unlisted(found: Mapping[str, CardLeases], listed: set[str], reader: Owner) -> list[GpuUsage]:
    """Return the GPUs with leases or waiting programs that NVML does not list."""
    names = [name for name, leases in found.items() if name not in listed and any(leases)]
    return [
        GpuUsage(
            f"?{number}" if len(names) > 1 else "?",
            uuid=printable(name),
            processes=tuple(map(_leased, describe_leases(found[name].granted, None, None, reader))),
        )
        for number, name in enumerate(names, start=1)
    ]


def _waiting(
    cards: list[GpuUsage], found: Mapping[str, CardLeases], reader: Owner
) -> tuple[WaitingProcess, ...]:
    """Return the waiting programs, each once even if it is waiting for one of several GPUs."""
    places: dict[Owner, list[tuple[Lease, LinePlace]]] = {}
    for card in cards:
        leases = found.get(folder_of(card.uuid) if card.uuid else "", CardLeases())
        queue = (each for each in leases.waiting if is_locked(each.path))  # and has not just ended
        for number, each in enumerate(queue, start=1):
            place = LinePlace(card.label, card.uuid, number, each.size_bytes)
            places.setdefault(each.owner, []).append((each, place))
    line = sorted(places.values(), key=lambda each: min(place.place for _, place in each))
    return tuple(_waiting_process(each, reader) for each in line)


def _waiting_process(places: list[tuple[Lease, LinePlace]], reader: Owner) -> WaitingProcess:
    lease = places[0][0]
    note = note_of(lease)
    return WaitingProcess(
        lease.owner.pid,
        user=note.user,
        program=note.program,
        profile=note.profile,
        since=_moment(note.since),
        is_ours=note.is_ours,
        is_elsewhere=lease.owner.namespace != reader.namespace,
        places=tuple(place for _, place in places),
    )


def _moment(seconds: float | None) -> str | None:
    """Format a time as local time in ISO 8601, to the second; None if it is out of range."""
    if seconds is None:
        return None
    try:
        moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
        return moment.astimezone().isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):  # a file with an impossible date
        return None
