"""This process's leases, which are taken while the plan is made and the ledger's mutex is held.

If memory is short and the profile says to wait, the process joins the queue of each acceptable
GPU.  The first in the queue checks the GPU; the others check those ahead of them.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from gpuconf.basics.processes import program_of, words_of
from gpuconf.errors import ShortageError
from gpuconf.machine.cards import Inventory, read_inventory
from gpuconf.machine.leases.folder import VARIABLE, LedgerFolder, NoLedgerError, find_folder
from gpuconf.machine.leases.lease import folder_of, next_ticket
from gpuconf.machine.leases.ledger import Ledger
from gpuconf.machine.leases.reading import note_of_use, read_ledger, read_with_leases, with_leases
from gpuconf.planner import Plan
from gpuconf.session.waiting import wait_for_plan

Make: TypeAlias = Callable[[Callable[[], Inventory]], Plan]

_FIRST_LOOKS_EVERY_S = 0.5  # for the GPU, since this queries the driver
_LOOK_EVERY_S = 0.2  # for the queue, multiplied by the number of programs ahead
_LONGEST_PAUSE_S = 2.0


class OwnLeases:
    """What this process has leased on each GPU; other programs see ``program`` as the holder."""

    def __init__(
        self,
        *,
        program: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._program = program
        self._ledger: Ledger | None = None

    def plan(self, make: Make, *, profile: str) -> Plan:
        """Return the plan from ``make``; take the leases that it requests, in place of those held.

        ``make`` receives a function that reads the GPUs with the leases on them, and raises
        ShortageError if they have too little memory; if the profile allows it, this function waits.
        An unusable ledger does not stop anything: no lease is taken, and a note reports it. The
        plan is then based on the free memory that NVML reports, less the leases that can be read.
        """
        try:
            about = {
                "program": self._program or program_of(words_of(os.getpid())),
                "profile": profile,
            }
            try:
                return self._planned_in_turn(make, about)
            except NoLedgerError:
                if not self._has_lost_its_ledger():
                    raise
            return self._planned_in_turn(make, about)  # in the queue of a new one
        except NoLedgerError as error:
            note = (
                f"could not reserve GPU memory: {error}. Two programs that start at the same time "
                "may now use the same memory; see `gpuconf doctor leases`"
            )
        plan = wait_for_plan(lambda: make(_read_without_line), clock=self._clock, sleep=self._sleep)
        return plan._replace(notes=(*plan.notes, note)) if _sizes(plan) else plan

    def file_of(self, uuid: str) -> str | None:
        """Return the lease file of that GPU; None if there is none."""
        held = () if self._ledger is None else self._ledger.held
        name = folder_of(uuid)
        return next((each.path for each in held if os.path.basename(each.folder) == name), None)

    def release(self) -> None:
        """Release all of them."""
        if self._ledger is not None:
            self._ledger.release_except([])

    def after_fork(self) -> None:
        """Reset the state in a forked child, which holds no lease: the parent keeps its own."""
        if self._ledger is not None:
            self._ledger.after_fork()

    def _has_lost_its_ledger(self) -> bool:
        """Whether the ledger's folder was removed; if so, drop the leases held in it."""
        if self._ledger is None or os.path.isdir(self._ledger.folder.path):
            return False
        self._ledger.release_except([])
        return True

    def _planned_in_turn(self, make: Make, note: Mapping[str, str]) -> Plan:
        """Make the plan and take its leases under the ledger's mutex; join the queue if necessary.

        Whatever ends this early, including an interrupt during the wait, the leases stay as they
        were.
        """
        ledger = self._ledger_to_use()
        before, turn = ledger.snapshot(), _Turn()

        def attempt() -> Plan:
            with ledger.mutex.held():
                ticket = turn.ticket_in(ledger)
                try:
                    plan = make(functools.partial(_read, ledger, ticket))
                except ShortageError as error:
                    if error.wait_s is not None and not turn.is_queued:
                        turn.wanted = {folder_of(uuid): size for uuid, size in error.wanted.items()}
                        ledger.take(turn.wanted, note, ticket, waiting=True, keep=before)
                        turn.is_queued = True
                    raise
                # Figures first: a long note is cut at its end.
                use = note_of_use({each.gpu: each.most_bytes for each in plan.gpus})
                ledger.take(_sizes(plan), {**use, **note}, ticket)
                return _noted(plan, ledger.folder)

        try:
            pause = functools.partial(self._pause, ledger, turn)
            return wait_for_plan(attempt, pause=pause, clock=self._clock)
        except BaseException:
            ledger.mutex.let_go()
            ledger.release_except(before)
            raise

    def _ledger_to_use(self) -> Ledger:
        if self._ledger is None or not self._ledger.held:
            self._ledger = Ledger(find_folder())  # look again: an old folder may have been removed
        if self._ledger.owner.pid != os.getpid():  # forked by C code, without Python's handlers
            self._ledger.after_fork()
        self._ledger.adopt()
        return self._ledger

    def _pause(self, ledger: Ledger, turn: _Turn, left_s: float) -> None:
        """Sleep until no program is ahead of us in the queue of some GPU, or time is up."""
        end, pause = self._clock() + left_s, _FIRST_LOOKS_EVERY_S
        while (left_s := end - self._clock()) > 0:
            self._sleep(min(pause, left_s))
            ahead = min((len(ledger.waiting(card, turn.ticket)) for card in turn.wanted), default=0)
            if not ahead:
                return
            pause = min(_LOOK_EVERY_S * ahead, _LONGEST_PAUSE_S)


class _Turn:
    """A program's place in the queue of each GPU in ``wanted``, once it ``is_queued``."""

    def __init__(self) -> None:
        self.ticket: int | None = None
        self.wanted: dict[str, int] = {}
        self.is_queued = False

    def ticket_in(self, ledger: Ledger) -> int:
        """Its ticket, drawn under the mutex at its first attempt; tickets give the order of
        arrival.

        A program that already holds a lease keeps its place: it gets the number after its lease's
        number, because the file of the new lease needs another name.
        """
        if self.ticket is None:
            held = [each.ticket + 1 for each in ledger.held if not each.is_waiting]
            self.ticket = min(held, default=None) or next_ticket()
        return self.ticket


def _read_without_line() -> Inventory:
    """Read the GPUs for a program that cannot join the queue; nobody is ahead of it."""
    return read_with_leases().mapped(lambda gpu: gpu._replace(ahead=0))


def _read(ledger: Ledger, ticket: int) -> Inventory:
    """Read the GPUs with the leases on them: live holders first, then NVML."""
    found = read_ledger(ledger, before=ticket, sweep=True)
    return with_leases(read_inventory(), found, ledger.owner)


def _sizes(plan: Plan) -> dict[str, int]:
    """Return the bytes that the plan leases on each GPU, by the name of the GPU's folder."""
    return {
        folder_of(each.gpu.uuid): each.lease_bytes
        for each in plan.gpus
        if each.lease_bytes is not None and each.gpu.uuid is not None
    }


def _noted(plan: Plan, folder: LedgerFolder) -> Plan:
    """Add a note to ``plan`` if programs outside this container cannot see its leases."""
    if not folder.is_private or not _sizes(plan):
        return plan
    note = (
        f"reservations are shared only within this container: {folder.path} belongs to it "
        "(`gpuconf docs clusters` shows how to share the machine's folder; "
        f"{VARIABLE}={folder.path} confirms that this is intended)"
    )
    return plan._replace(notes=(*plan.notes, note))
