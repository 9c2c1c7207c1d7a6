"""The ledger between real processes: a lease lives as long as its process does, and no longer."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from gpuconf.machine.leases.files import read_note
from gpuconf.machine.leases.folder import MODE, LedgerFolder, NoLedgerError
from gpuconf.machine.leases.lease import next_ticket
from gpuconf.machine.leases.ledger import Ledger
from tests.machine.leases.ledgers import CARD, NOTE, OTHER_CARD, acting, files, held, holding, sizes
from tests.machine.leases.processes import Child, child, descriptors, fork

# --- taking, replacing, releasing ---------------------------------------------------------------


def test_a_lease_is_seen_by_others(root: Path, ledger: Ledger) -> None:
    """With all that its file says; in folders that everybody may use and nobody may rob."""
    with held(root, {CARD: 100, OTHER_CARD: 7}) as holder:
        assert ledger.cards() == [CARD, OTHER_CARD]
        assert (sizes(ledger), sizes(ledger, OTHER_CARD)) == ([100], [7])
        (lease,) = ledger.leases(CARD)
        assert lease.owner.pid == holder.pid
        assert read_note(lease) == NOTE
        assert (root / CARD).stat().st_mode & 0o7777 == MODE
        assert os.stat(lease.path).st_mode & 0o777 == 0o644
        assert not ledger.waiting(CARD)


def test_a_umask_closes_nothing(root: Path, ledger: Ledger) -> None:
    """The files of a program with umask 077 can be asked by everybody."""
    act = holding(root, {CARD: 100})

    def carefully(self: Child) -> None:
        os.umask(0o077)
        act(self)

    with child(carefully) as holder:
        holder.expect("holds")
        modes = [path.stat().st_mode & 0o7777 for path in (root / CARD, root / "mutex")]
        assert modes == [MODE, 0o644]
        assert [path.stat().st_mode & 0o777 for path in root.glob("*/*")] == [0o644]
    assert sizes(ledger) == []


def test_leasing_do_not_count(root: Path, ledger: Ledger) -> None:
    """A process never counts its own, and never ends it by looking at it."""

    def act(own: Ledger) -> str:
        own.take({CARD: 100}, NOTE, next_ticket())
        assert own.leases(CARD, sweep=True) == []
        assert Ledger(LedgerFolder(str(root))).leases(CARD, sweep=True) == []
        own.waiting(CARD, sweep=True)
        own.adopt()
        assert [each.size_bytes for each in own.held] == [100]
        return "looked"

    with child(acting(root, act)) as holder:
        holder.expect("looked")
        assert sizes(ledger) == [100]


def test_a_new_lease_takes_the_place_of_the_old(root: Path, ledger: Ledger) -> None:
    """Also of a place in the line, and on another GPU; at no moment there is none."""

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        before = descriptors()
        steps: tuple[dict[str, int], ...] = (
            {CARD: 100},
            {CARD: 50},
            {CARD: 50},
            {OTHER_CARD: 5},
            {},
        )
        own.take({CARD: 1, OTHER_CARD: 1}, NOTE, next_ticket(), waiting=True)
        for wanted in steps:
            own.take(wanted, NOTE, next_ticket())
            self.say(len(descriptors()) - len(before))
            self.wait()

    with child(act) as holder:
        for count, here, there in ((1, [100], []), (1, [50], []), (1, [50], []), (1, [], [5])):
            holder.expect(count)
            assert (sizes(ledger), sizes(ledger, OTHER_CARD)) == (here, there)
            assert ledger.waiting(CARD) == ledger.waiting(OTHER_CARD) == []
            holder.go()
        holder.expect(0)
        assert files(root) == []


def test_all_cards_or_none(root: Path, ledger: Ledger) -> None:
    """Where one GPU's folder cannot be written, what is held stays, and nothing else is."""
    (root / OTHER_CARD).write_text("no folder")

    def act(own: Ledger) -> str:
        own.take({CARD: 100}, NOTE, next_ticket())
        with pytest.raises(NoLedgerError, match=OTHER_CARD):
            own.take({CARD: 50, OTHER_CARD: 50}, NOTE, next_ticket())
        return "refused"

    with child(acting(root, act)) as holder:
        holder.expect("refused")
        assert sizes(ledger) == [100]
        assert len(files(root)) == 1


# --- the sign of life ---------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
def test_it_ends_with_its_process(waits: bool, root: Path, ledger: Ledger) -> None:
    """However that ends; a reader does not count what is left, and who sweeps removes it."""
    for kill in (True, False):
        with held(root, {CARD: 100}, waits=waits) as holder:
            found = ledger.waiting(CARD) if waits else ledger.leases(CARD)
            assert [each.owner.pid for each in found] == [holder.pid]
            holder.kill() if kill else holder.go()
            holder.end()
            assert ledger.leases(CARD) == ledger.waiting(CARD) == []
            assert len(files(root)) == 1
            ledger.leases(CARD, sweep=True)
            ledger.waiting(CARD, sweep=True)
            assert files(root) == []


def test_one_that_was_never_finished_is_swept(root: Path, ledger: Ledger) -> None:
    """Of a process killed between making the file and giving it its name."""
    (root / CARD).mkdir()
    (root / CARD / ".new.1.2").touch()
    (root / CARD / "README").touch()
    assert ledger.leases(CARD) == []
    assert len(files(root)) == 2
    assert ledger.leases(CARD, sweep=True) == []
    assert files(root) == [f"{CARD}/README"]


def test_a_suspended_holder_keeps_it(root: Path, ledger: Ledger) -> None:
    """What is stopped still has its memory."""
    with held(root, {CARD: 100}) as holder:
        os.kill(holder.pid, signal.SIGSTOP)
        assert [each.size_bytes for each in ledger.leases(CARD, sweep=True)] == [100]
        os.kill(holder.pid, signal.SIGCONT)


def test_no_descriptor_is_no_death(root: Path) -> None:
    """A reader that cannot open a lease's file for its own reasons calls nobody dead."""

    def read(_: Child) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        own = Ledger(LedgerFolder(str(root)))
        with held(root, {CARD: 100}):
            (lease,) = own.leases(CARD)
            filled = []
            try:
                while True:
                    filled.append(os.dup(0))
            except OSError:
                pass
            with pytest.raises(NoLedgerError):
                own._lives(lease, sweep=True)
            for each in filled:
                os.close(each)
            assert own.leases(CARD) == [lease]

    with child(read) as reader:
        assert reader.end() == 0


@pytest.mark.parametrize("closed", [(0,), (2,), (0, 1, 2)])
def test_no_standard_stream(closed: tuple[int, ...], root: Path, ledger: Ledger) -> None:
    """In a program without stderr the lease's file is not what others then write their errors to.

    Nor does it end when they put another file in its place.
    """

    def act(self: Child) -> None:
        for number in closed:
            os.close(number)
        own = Ledger(LedgerFolder(str(root)))
        own.take({CARD: 100}, NOTE, next_ticket())
        null = os.open(os.devnull, os.O_RDWR)
        for number in closed:
            os.dup2(null, number)
        self.say("holds")
        self.wait()

    with child(act) as holder:
        holder.expect("holds")
        assert sizes(ledger) == [100]
    assert sizes(ledger) == []


def test_numbers_that_are_anothers_by_now(root: Path) -> None:
    """A program that has closed all its descriptors keeps those that it opened since."""

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        own.take({CARD: 100}, NOTE, next_ticket())
        ((number,),) = (held.descriptors for held in own._held)
        os.close(number)
        files = [os.open(os.devnull, os.O_RDONLY)]
        files.append(os.dup2(files[0], number))
        pid = fork()
        if pid == 0:
            own.after_fork()
            os._exit(0 if all(map(os.fstat, files)) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        own.release_except([])
        assert all(map(os.fstat, files))
        self.say("kept")

    with child(act) as holder:
        holder.expect("kept")
        assert holder.end() == 0
