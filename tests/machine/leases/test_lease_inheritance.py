"""A lease through fork and exec, and as other namespaces and other users see it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gpuconf.injected.places import NoPlaceError, leave_places, take_places
from gpuconf.machine.cards.inventory import GpuProcess
from gpuconf.machine.leases.files import is_locked, read_note, users_of
from gpuconf.machine.leases.folder import LedgerFolder
from gpuconf.machine.leases.lease import next_ticket, this_process
from gpuconf.machine.leases.ledger import Ledger
from gpuconf.machine.leases.reading import describe_leases
from tests.machine.leases.ledgers import (
    CARD,
    IN_NAMESPACE,
    NOTE,
    as_user,
    files,
    held,
    readable_by_all,
    sizes,
    start_other,
)
from tests.machine.leases.processes import Child, child, fork


@pytest.mark.parametrize("end", ["closes", "dies", "lives"])
def test_a_forked_child_holds_nothing(end: str, root: Path, ledger: Ledger) -> None:
    """The lease stays with the parent, whatever the child does, and ends with the parent."""

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        own.take({CARD: 100}, NOTE, next_ticket())
        read, write = os.pipe()
        pid = fork()
        if pid == 0:
            if end == "closes":
                own.after_fork()
                assert own.held == ()
                assert [each.size_bytes for each in own.leases(CARD)] == [100]  # as another's
                own.take({CARD: 7}, NOTE, next_ticket())
                own.release_except([])
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
from gpuconf.machine.cards.inventory import GpuProcess
from gpuconf.machine.leases.folder import LedgerFolder
from gpuconf.machine.leases.lease import next_ticket
from gpuconf.machine.leases.ledger import Ledger
sys.stdout.write("execed\\n"); sys.stdout.flush(); sys.stdin.readline()
own = Ledger(LedgerFolder(sys.argv[1]))
own.adopt()
sys.stdout.write(f"{[each.size_bytes for each in own.held]}\\n"); sys.stdout.flush()
own.take({"GPU-0": 40}, {}, next_ticket())
sys.stdout.write("replaced\\n"); sys.stdout.flush(); sys.stdin.readline()
own.release_except([])
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


def test_a_child_with_a_place_in_its_parents_lease(root: Path, ledger: Ledger) -> None:
    """Its memory is the lease's, looking at the lease does not cost it its place, and it counts.

    The parent is killed: the lease lives on until the child ends.
    """

    def act(self: Child) -> None:
        own = Ledger(LedgerFolder(str(root)))
        own.take({CARD: 100}, NOTE, next_ticket())
        pid = fork()
        if pid == 0:
            own.after_fork()
            (lease,) = own.leases(CARD)
            take_places({CARD: lease.path}, 1, [CARD])
            assert is_locked(lease.path)
            assert read_note(lease) == {}
            assert users_of(lease) == (os.getpid(),)
            second = fork()
            if second == 0:
                with pytest.raises(NoPlaceError, match="--processes 2"):
                    take_places({CARD: lease.path}, 1, [CARD])
                os._exit(0)
            assert os.waitpid(second, 0)[1] == 0
            leave_places()
            assert users_of(lease) == ()
            take_places({CARD: lease.path}, 1, [CARD])
            self.say(os.getpid())
            self.wait()
            os._exit(0)
        time.sleep(60)

    with child(act) as holder:
        user = int(holder.hear())
        (lease,) = ledger.leases(CARD)
        assert users_of(lease) == (user,)
        assert read_note(lease) == NOTE
        holder.kill()
        assert ledger.leases(CARD, sweep=True) == [lease]
        processes = (GpuProcess(user, 60), GpuProcess(1, 20))
        (seen,) = describe_leases((lease,), processes, None, ledger.owner)
        assert (seen.pid, seen.used_bytes, seen.promised_bytes) == (holder.pid, 60, 40)
        holder.go()
        while Path(f"/proc/{user}").exists() and (
            Path(f"/proc/{user}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        ):
            time.sleep(0.01)
        assert ledger.leases(CARD, sweep=True) == []
    assert files(root) == []


@pytest.mark.needs_root
@pytest.mark.parametrize("by", ["namespace", "user"])
def test_others_see_it_and_are_seen(by: str, root: Path, ledger: Ledger) -> None:
    """From another pid namespace, where our pid is another's, and by another user."""
    command = as_user() if by == "user" else IN_NAMESPACE
    readable_by_all(root)
    with held(root, {CARD: 100}):
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
        assert is_here == {100: True, 7: by == "user"}
        other.communicate("\n", timeout=30)
        assert other.returncode == 0
        assert sizes(ledger) == [100]
