"""The ledger between real processes: a lease lives as long as its process does, and no longer."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconf.leases.files import keep, read_note
from gpuconf.leases.folder import MODE, LedgerFolder, NoLedgerError
from gpuconf.leases.lease import next_ticket, this_process
from gpuconf.leases.ledger import Ledger
from tests.leases.processes import Child, child, descriptors

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, as in CI")
CARD, OTHER_CARD = "GPU-0", "GPU-1"
NOTE = {"program": "train.py", "profile": "half-card"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A ledger's folder."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    folder.chmod(MODE)
    return folder


@pytest.fixture
def ledger(root: Path) -> Ledger:
    """The ledger, as this process uses it."""
    return Ledger(LedgerFolder(str(root)))


def holding(root: Path, sizes: dict[str, int], *, waits: bool = False) -> Callable[[Child], None]:
    """A child that takes a lease, or a place in the line, and keeps it until it may go."""

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        with own.mutex.held():
            (own.wait if waits else own.take)(sizes, NOTE, next_ticket())
        self.say("holds")
        self.wait()

    return act


def sizes(ledger: Ledger, card: str = CARD) -> list[int]:
    """The sizes of the leases of others, in order."""
    return sorted(each.size_bytes for each in ledger.leases(card))


def files(root: Path) -> list[str]:
    """All files of the cards' folders."""
    return sorted(str(path.relative_to(root)) for path in root.glob("*/*"))


# --- taking, replacing, releasing ---------------------------------------------------------------


def test_a_lease_is_seen_by_others(root: Path, ledger: Ledger) -> None:
    """With all that its file says; in folders that everybody may use and nobody may rob."""
    with child(holding(root, {CARD: 100, OTHER_CARD: 7})) as holder:
        holder.expect("holds")
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


def test_own_leases_do_not_count(root: Path, ledger: Ledger) -> None:
    """A process never counts its own, and never ends it by looking at it."""

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        own.take({CARD: 100}, NOTE, next_ticket())
        assert own.leases(CARD, sweep=True) == []
        assert Ledger(LedgerFolder(str(root))).leases(CARD, sweep=True) == []
        own.waiting(CARD, sweep=True)
        own.adopt()
        assert [each.size_bytes for each in own.held] == [100]
        self.say("looked")
        self.wait()

    with child(act) as holder:
        holder.expect("looked")
        assert sizes(ledger) == [100]


def test_a_new_lease_takes_the_place_of_the_old(root: Path, ledger: Ledger) -> None:
    """Also of a place in the line, and on another card; at no moment there is none."""

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
        own.wait({CARD: 1, OTHER_CARD: 1}, NOTE, next_ticket())
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


def test_back_to_what_was_held(root: Path, ledger: Ledger) -> None:
    """What came after a snapshot is released, what was held then stays."""

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        own.take({CARD: 100}, NOTE, next_ticket())
        before = own.snapshot()
        own._make(OTHER_CARD, "lease", next_ticket(), 5, NOTE)
        own.release_but(before)
        self.say("back")
        self.wait()

    with child(act) as holder:
        holder.expect("back")
        assert len(files(root)) == 1
        assert sizes(ledger) == [100]


def test_all_cards_or_none(root: Path, ledger: Ledger) -> None:
    """Where one card's folder cannot be written, what is held stays, and nothing else is."""
    (root / OTHER_CARD).write_text("no folder")

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        own.take({CARD: 100}, NOTE, next_ticket())
        with pytest.raises(NoLedgerError, match=OTHER_CARD):
            own.take({CARD: 50, OTHER_CARD: 50}, NOTE, next_ticket())
        self.say("refused")
        self.wait()

    with child(act) as holder:
        holder.expect("refused")
        assert sizes(ledger) == [100]
        assert len(files(root)) == 1


# --- the sign of life ---------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
def test_it_ends_with_its_process(waits: bool, root: Path, ledger: Ledger) -> None:
    """However that ends; a reader does not count what is left, and who sweeps removes it."""
    for kill in (True, False):
        with child(holding(root, {CARD: 100}, waits=waits)) as holder:
            holder.expect("holds")
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
    with child(holding(root, {CARD: 100})) as holder:
        holder.expect("holds")
        os.kill(holder.pid, signal.SIGSTOP)
        assert [each.size_bytes for each in ledger.leases(CARD, sweep=True)] == [100]
        os.kill(holder.pid, signal.SIGCONT)


def test_who_is_stopped_holds_up_nobody(root: Path, ledger: Ledger) -> None:
    """A waiting program under ^Z keeps its place; those behind it go on meanwhile."""
    with child(holding(root, {CARD: 100}, waits=True)) as first:
        first.expect("holds")
        with child(holding(root, {CARD: 7}, waits=True)) as second:
            second.expect("holds")
            assert [each.size_bytes for each in ledger.waiting(CARD)] == [100, 7]
            before = ledger.waiting(CARD)[1].ticket
            os.kill(first.pid, signal.SIGSTOP)
            os.waitpid(first.pid, os.WUNTRACED)
            assert ledger.waiting(CARD, before, sweep=True) == []
            os.kill(first.pid, signal.SIGCONT)
            os.waitpid(first.pid, os.WCONTINUED)
            assert [each.size_bytes for each in ledger.waiting(CARD, before)] == [100]


def test_no_descriptor_is_no_death(root: Path) -> None:
    """A reader that cannot open a lease's file for its own reasons calls nobody dead."""

    def read(_: Child) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        own = Ledger(LedgerFolder(str(root)))
        with child(holding(root, {CARD: 100})) as holder:
            holder.expect("holds")
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


# --- fork, exec, and children that keep a lease ---------------------------------------------------


@pytest.mark.parametrize("end", ["closes", "dies", "lives"])
def test_a_forked_child_holds_nothing(end: str, root: Path, ledger: Ledger) -> None:
    """The lease stays with the parent, whatever the child does, and ends with the parent."""

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        own.take({CARD: 100}, NOTE, next_ticket())
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            if end == "closes":
                own.after_fork()
                assert own.held == ()
                assert [each.size_bytes for each in own.leases(CARD)] == [100]  # as another's
                own.take({CARD: 7}, NOTE, next_ticket())
                own.release_but([])
            os.write(write, b"done")
            if end == "lives":
                time.sleep(30)
            os._exit(0)
        os.read(read, 4)
        if end != "lives":
            os.waitpid(pid, 0)
        self.say(pid)
        self.wait()

    with child(act) as holder:
        grandchild = int(holder.hear())
        assert sizes(ledger) == [100]
        assert len(files(root)) == 1
        holder.kill()
        assert sizes(ledger) == []
    if end == "lives":
        os.kill(grandchild, signal.SIGKILL)


_EXECED = """
import sys
from gpuconf.leases.folder import LedgerFolder
from gpuconf.leases.lease import next_ticket
from gpuconf.leases.ledger import Ledger
sys.stdout.write("execed\\n"); sys.stdout.flush(); sys.stdin.readline()
own = Ledger(LedgerFolder(sys.argv[1]))
own.adopt()
sys.stdout.write(f"{[each.size_bytes for each in own.held]}\\n"); sys.stdout.flush()
own.take({"GPU-0": 40}, {}, next_ticket())
sys.stdout.write("replaced\\n"); sys.stdout.flush(); sys.stdin.readline()
own.release_but([])
import os
print([each for each in os.listdir("/proc/self/fd")
       if os.path.exists(f"/proc/self/fd/{each}") and
       os.readlink(f"/proc/self/fd/{each}").startswith(os.path.realpath(sys.argv[1]))])
"""


@pytest.mark.parametrize("linked", [False, True])
def test_it_stays_through_exec(linked: bool, root: Path, ledger: Ledger) -> None:
    """The program that takes over finds the lease, replaces it, and leaves nothing behind."""
    path = root
    if linked:
        path = root.parent / "link"
        path.symlink_to(root)

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(path)))
        own.take({CARD: 100}, NOTE, next_ticket())
        os.dup2(self._to_parent, 1)
        os.dup2(self._from_parent, 0)
        os.execv(sys.executable, [sys.executable, "-c", _EXECED, str(path)])

    with child(act) as holder:
        holder.expect("execed")
        assert sizes(ledger) == [100]
        os.write(holder._to_child, b"\n")
        holder.expect("[100]")
        holder.expect("replaced")
        assert sizes(ledger) == [40]
        assert len(files(root)) == 1
        os.write(holder._to_child, b"\n")
        holder.expect("[]")
        assert holder.end() == 0
    assert files(root) == []


def test_it_stays_through_exec_of_another_program(root: Path, ledger: Ledger) -> None:
    """A shell that knows nothing of it holds it as long as it lives; its child does not."""

    def act(self: Child) -> None:
        Ledger(LedgerFolder(str(root))).take({CARD: 100}, NOTE, next_ticket())
        self.say("execs")
        os.dup2(self._from_parent, 0)
        os.execv("/bin/sh", ["sh", "-c", "sleep 60 & read line; kill $!"])

    with child(act) as holder:
        holder.expect("execs")
        while Path(f"/proc/{holder.pid}/comm").read_text() != "sh\n":
            time.sleep(0.01)
        assert sizes(ledger) == [100]
        os.write(holder._to_child, b"\n")
        holder.end()
        assert sizes(ledger) == []


def test_a_child_that_keeps_its_parents_lease(root: Path, ledger: Ledger) -> None:
    """The parent is killed: the lease lives on until its keeper ends."""

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        own.take({CARD: 100}, NOTE, next_ticket())
        pid = os.fork()
        if pid == 0:
            own.after_fork()
            (lease,) = own.leases(CARD)
            keep(lease)
            self.say(os.getpid())
            self.wait()
            os._exit(0)
        time.sleep(60)

    with child(act) as holder:
        keeper = int(holder.hear())
        holder.kill()
        assert [each.size_bytes for each in ledger.leases(CARD, sweep=True)] == [100]
        holder.go()
        while Path(f"/proc/{keeper}").exists() and (
            Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        ):
            time.sleep(0.01)
        assert ledger.leases(CARD, sweep=True) == []
    assert files(root) == []


# --- other namespaces, other users, other mounts -------------------------------------------------

_LIVES = """
import os, sys
from gpuconf.leases.folder import LedgerFolder
from gpuconf.leases.lease import next_ticket
from gpuconf.leases.ledger import Ledger
other = Ledger(LedgerFolder(sys.argv[1]))
with other.mutex.held():
    print([each.size_bytes for each in other.leases("GPU-0", sweep=True)])
    other.take({"GPU-0": 7}, {}, next_ticket())
sys.stdout.flush()
sys.stdin.readline()
"""


def start_other(command: list[str], root: Path) -> subprocess.Popen[str]:
    """Start that program behind ``command``; it holds 7 until it gets a line."""
    return subprocess.Popen(
        [*command, sys.executable, "-c", _LIVES, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


_NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@needs_root
@pytest.mark.parametrize("command", [_NAMESPACE, _USER], ids=["namespace", "user"])
def test_others_see_it_and_are_seen(command: list[str], root: Path, ledger: Ledger) -> None:
    """From another pid namespace, where our pid is another's, and by another user."""
    readable_by_all(root)
    with child(holding(root, {CARD: 100})) as holder:
        holder.expect("holds")
        other = start_other(command, root)
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "[100]\n"
        with ledger.mutex.held():
            found = ledger.leases(CARD, sweep=True)
        assert sorted(each.size_bytes for each in found) == [7, 100]
        is_here = {
            each.size_bytes: each.owner.namespace == this_process().namespace for each in found
        }
        assert is_here == {100: True, 7: command is _USER}
        other.communicate("\n", timeout=30)
        assert other.returncode == 0
        assert sizes(ledger) == [100]


def readable_by_all(folder: Path) -> None:
    """Let every user pass through the test's own folders."""
    for each in folder.parents:
        if each.stat().st_uid == os.getuid() and not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o055)
