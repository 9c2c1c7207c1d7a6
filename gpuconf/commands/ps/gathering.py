"""Combine the ledger with NVML and /proc: who holds memory of each card.  Read-only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from typing import NamedTuple

from gpuconf.basics.terminal import printable
from gpuconf.commands.ps.document import (
    CardHoldings,
    Holding,
    Holdings,
    LeaseBar,
    LedgerState,
    LinePlace,
    UserHoldings,
    WaitingProcess,
)
from gpuconf.machine.cards import CardLease, Gpu, Inventory, holders, read_inventory
from gpuconf.machine.cards.holders import Process, holders_of, read_processes
from gpuconf.machine.leases.folder import (
    NoLedgerError,
    find_folder,
    is_container,
)
from gpuconf.machine.leases.lease import Owner, folder_of, this_process
from gpuconf.machine.leases.ledger import Ledger
from gpuconf.machine.leases.view import (
    CardLeases,
    WaitingProgram,
    describe_leases,
    describe_waiting,
    read_ledger,
    with_leases,
)

_NO_LEDGER_YET = "no program here has leased memory yet"


def read_holdings(
    read: Callable[[], Inventory] = read_inventory,
    *,
    environ: Mapping[str, str] = os.environ,
    now: float | None = None,
) -> Holdings:
    """Return all users' holdings from the ledger, then ``read`` (NVML), then /proc.

    The order matters: see `gpuconf.machine.leases.view`.  The ledger's mutex is not taken.
    """
    state, found = _read_ledger(environ)
    reader = this_process()
    inventory = read()
    known = read_processes(inventory, in_container=is_container())
    inventory = with_leases(inventory, found, reader, known)
    cards = [_card(label, gpu, known) for label, gpu in _devices(inventory)]
    listed = {folder_of(each.uuid) for each in cards if each.uuid}
    cards += _unlisted(found, listed, reader)
    return Holdings(
        made_at=_moment(time.time() if now is None else now) or "",
        cards=tuple(cards),
        waiting=_waiting(cards, found, reader),
        ledger=state,
        problem=inventory.problem,
    )


def summed_up(holdings: Holdings) -> Holdings:
    """Return the same, with the processes of each other user as one total per card."""
    return holdings._replace(cards=tuple(map(_card_summed_up, holdings.cards)))


def _card_summed_up(card: CardHoldings) -> CardHoldings:
    others: dict[str | None, list[Holding]] = {}
    for each in card.processes:
        if not each.is_ours:
            others.setdefault(each.user, []).append(each)
    sums = (
        UserHoldings(
            user,
            len(each),
            _leases_of(each),
            _sum([one.used_bytes for one in each]),
        )
        for user, each in others.items()
    )
    return card._replace(
        processes=tuple(each for each in card.processes if each.is_ours), others=tuple(sums)
    )


def _leases_of(processes: list[Holding]) -> int | None:
    """Return the sum of their leases; None if there are none."""
    leases = [each.lease_bytes for each in processes if each.lease_bytes is not None]
    return sum(leases) if leases else None


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _read_ledger(environ: Mapping[str, str]) -> tuple[LedgerState, dict[str, CardLeases]]:
    try:
        folder = find_folder(environ, may_make=False)
        found = read_ledger(Ledger(folder))
    except NoLedgerError as error:
        problem = _NO_LEDGER_YET if error.is_missing else f"no lease can be seen: {error}"
        return LedgerState(problem=problem), {}
    return LedgerState(folder.path, is_private=folder.is_private), found


def _devices(inventory: Inventory) -> Iterator[tuple[str, Gpu]]:
    """Yield each card with its label, or its MIG instances instead if it has any."""
    for gpu in inventory.gpus:
        if not gpu.mig_instances:
            yield str(gpu.index), gpu
        for place, instance in enumerate(gpu.mig_instances):
            yield f"{gpu.index}.{place}", instance


def _card(label: str, gpu: Gpu, known: Mapping[int, Process]) -> CardHoldings:
    processes = sorted(_processes(gpu, known), key=_rank)
    return CardHoldings(
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
        processes=tuple(processes),
    )


def _processes(gpu: Gpu, known: Mapping[int, Process]) -> Iterator[Holding]:
    """Yield the leases, then the processes that hold memory without one."""
    yield from map(_leased, gpu.leases)
    yield from map(_unleased, holders_of(gpu._replace(processes=gpu.unleased), known) or ())


def _leased(lease: CardLease) -> Holding:
    return Holding(
        lease.pid,
        user=lease.user,
        program=lease.program,
        profile=lease.profile,
        lease_bytes=lease.lease_bytes,
        used_bytes=lease.used_bytes,
        is_estimate=lease.is_estimate,
        since=_moment(lease.since),
        is_ours=lease.is_ours,
        is_elsewhere=lease.is_elsewhere,
        pids=lease.pids,
    )


def _unleased(holder: holders.Holder) -> Holding:
    process = holder.process or Process(holder.pid)
    return Holding(
        holder.pid,
        user=process.user,
        program=process.program or holder.name,
        profile=process.profile,
        used_bytes=holder.used_bytes,
        since=_moment(process.started),
        kind=holder.kind,
        is_ours=process.is_ours,
        pids=(holder.pid,),
    )


def _rank(each: Holding) -> tuple[bool, int, int]:
    """Sort this user's processes first, then by size."""
    return not each.is_ours, -max(each.lease_bytes or 0, each.used_bytes or 0), each.pid


def _bar(gpu: Gpu, processes: list[Holding]) -> LeaseBar | None:
    if gpu.total_bytes is None or gpu.free_bytes is None:
        return None
    used = max(gpu.total_bytes - gpu.free_bytes, 0)
    ours = min(used, sum(each.used_bytes or 0 for each in processes if each.is_ours))
    promised = min(gpu.promised_bytes, gpu.free_bytes)
    return LeaseBar(used - ours, ours, promised, gpu.free_bytes - promised)


def _unlisted_bytes(gpu: Gpu) -> int | None:
    """Return the memory in use beyond the driver's list; None if the list lacks a size."""
    if gpu.total_bytes is None or gpu.free_bytes is None or gpu.processes is None or gpu.is_unified:
        return None
    listed = _sum([each.used_bytes for each in gpu.processes])
    return None if listed is None else max(gpu.total_bytes - gpu.free_bytes - listed, 0)


def _unlisted(
    found: Mapping[str, CardLeases], listed: set[str], reader: Owner
) -> list[CardHoldings]:
    """Return the cards with leases or waiting programs that NVML does not list."""
    names = [name for name, leases in found.items() if name not in listed and any(leases)]
    return [
        CardHoldings(
            f"?{number}" if len(names) > 1 else "?",
            uuid=printable(name),
            processes=tuple(map(_leased, describe_leases(found[name].granted, None, None, reader))),
        )
        for number, name in enumerate(names, start=1)
    ]


class _Place(NamedTuple):
    """A place in a queue, and the program at that place."""

    program: WaitingProgram
    place: LinePlace


def _waiting(
    cards: list[CardHoldings], found: Mapping[str, CardLeases], reader: Owner
) -> tuple[WaitingProcess, ...]:
    """Return the waiting programs, each once even if it waits for one of several cards."""
    places: dict[Owner, list[_Place]] = {}
    for card in cards:
        leases = found.get(folder_of(card.uuid) if card.uuid else "", CardLeases())
        for number, each in enumerate(describe_waiting(leases.waiting, reader), start=1):
            place = LinePlace(card.label, card.uuid, number, each.least_bytes)
            places.setdefault(each.owner, []).append(_Place(each, place))
    line = sorted(places.values(), key=lambda each: min(one.place.place for one in each))
    return tuple(map(_waiting_process, line))


def _waiting_process(places: list[_Place]) -> WaitingProcess:
    program = places[0].program
    return WaitingProcess(
        program.owner.pid,
        user=program.user,
        program=program.program,
        profile=program.profile,
        since=_moment(program.since),
        is_ours=program.is_ours,
        is_elsewhere=program.is_elsewhere,
        places=tuple(each.place for each in places),
    )


def _moment(seconds: float | None) -> str | None:
    """Format a time as ISO 8601 in the local zone, in seconds; None if it is out of range."""
    if seconds is None:
        return None
    try:
        moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
        return moment.astimezone().isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):  # a file with an impossible date
        return None
