"""The doctor's look at the ledger: real folders, and real programs that hold leases in them."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.doctor.checks.lease_files import _sweep
from gpuconf.commands.doctor.facts import LedgerContents, LedgerFacts
from gpuconf.commands.doctor.gathering.leases import read_ledger_facts
from gpuconf.machine.cards import Gpu, Inventory
from gpuconf.machine.leases.files import descriptors_of, is_locked
from gpuconf.machine.leases.ledger import MOST_FILES
from tests.commands.doctor.lease_programs import (
    CARD,
    holder,
    leave_dead,
    ledger_in,
    locker,
    wait_for_state,
)
from tests.programs.processes import run_python

INVENTORY = Inventory((Gpu(0, uuid=CARD),))


def look(folder: Path | str, *, root: Path | None = None, long_s: float = 0.2) -> LedgerFacts:
    """The facts of the ledger that $GPUCONF_LEASES names."""
    environ = {"GPUCONF_LEASES": str(folder)}
    where = "/nowhere" if root is None else str(root)
    return read_ledger_facts(INVENTORY, root=where, environ=environ, long_s=long_s)


def contents(folder: Path) -> LedgerContents:
    """What is in the ledger."""
    found = look(folder).contents
    assert found is not None
    return found


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Everything below ``folder``, with mode and time of the last change."""
    files = [folder, *folder.rglob("*")]
    return {str(each): (each.lstat().st_mode, each.lstat().st_ctime_ns) for each in files}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """An empty ledger."""
    return ledger_in(tmp_path / "leases")


def test_a_folder_that_can_be_made_is_no_fault_and_is_not_made(tmp_path: Path) -> None:
    """The first program makes it."""
    found = look(tmp_path / "leases")
    assert (found.path, found.is_there) == (str(tmp_path / "leases"), False)
    assert found.faults == ()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    """A path that is relative, below nothing, of a file, or of a folder that is not sticky."""
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    expected = {
        "leases": "relative",
        str(tmp_path / "no/where"): "missing",
        str(tmp_path / "file"): "no_folder",
        str(tmp_path / "open"): "not_sticky",
    }
    for path, code in expected.items():
        found = look(path)
        assert (found.path, [each.code for each in found.faults]) == (None, [code])


def test_the_default_folders_in_their_order(tmp_path: Path) -> None:
    """One that is there and wrong is passed over, and said; one that is not there is no fault."""
    default = partial(read_ledger_facts, INVENTORY, root=str(tmp_path), environ={})
    shared = ledger_in(tmp_path / "dev/shm/gpuconf")
    assert (default().path, default().is_there, default().faults) == (str(shared), True, ())
    folder = tmp_path / "run/gpuconf"
    folder.mkdir(parents=True)
    for mode, code in ((0o777, "not_sticky"), (0o755, "read_only")):
        folder.chmod(mode)
        assert default().path == str(shared)
        assert [(each.path, each.code) for each in default().faults] == [(str(folder), code)]


def test_the_first_default_folder_that_could_be_made(tmp_path: Path) -> None:
    """Where there is none; and where none can be used, each says why."""
    (tmp_path / "dev/shm").mkdir(parents=True)
    found = read_ledger_facts(INVENTORY, root=str(tmp_path), environ={})
    assert (found.path, found.is_there) == (str(tmp_path / "dev/shm/gpuconf"), False)
    found = read_ledger_facts(INVENTORY, root=str(tmp_path / "nowhere"), environ={})
    assert found.path is None
    assert [each.code for each in found.faults] == ["missing"] * 3


def test_who_lives_and_what_is_left(ledger: Path) -> None:
    """Leases and places in the line by their locks; the dead one's file; whose program it is."""
    leave_dead(ledger)
    (ledger / CARD / ".new.1.2").touch()
    with holder(ledger) as first, holder(ledger, state="waits") as second:
        found = contents(ledger)
    assert {(each.pid, each.is_waiting) for each in found.holders} == {
        (first.pid, False),
        (second.pid, True),
    }
    lease = next(each for each in found.holders if not each.is_waiting)
    assert (lease.card, lease.size_bytes, lease.program) == ("GPU 0", 512 * MIB, "train.py")
    assert (lease.is_ours, lease.is_foreign, lease.state in ("R", "S")) == (True, False, True)
    assert len(found.left) == 2
    assert all(each.may_remove for each in found.left)
    assert found.strange == ()


def test_a_holder_in_another_pid_namespace(ledger: Path) -> None:
    """Its lock says that it lives; its number says nothing here."""
    with holder(ledger, namespace=7):
        (lease,) = contents(ledger).holders
    assert (lease.is_foreign, lease.state) == (True, None)


def test_a_stopped_holder(ledger: Path) -> None:
    """The kernel's letter is T."""
    with holder(ledger) as process:
        process.send_signal(signal.SIGSTOP)
        wait_for_state(process, "T")
        (lease,) = contents(ledger).holders
    assert (lease.pid, lease.state) == (process.pid, "T")


def test_files_that_are_not_gpuconfs(ledger: Path) -> None:
    """Other names, links, pipes and folders, in the ledger and in a card's folder."""
    card = ledger_in(ledger / CARD)
    (ledger / "README").touch()
    (ledger / "\x1b[2J").mkdir()
    (card / "lease.1.2.3.4").touch()
    (card / "lease.1.2.3.4.-5").touch()
    (card / "lease.1.2.3.4.5").symlink_to("/etc/passwd")
    os.mkfifo(card / "lease.1.2.3.4.6")
    found = contents(ledger)
    assert {os.path.basename(each.path) for each in found.strange} == {
        *("README", "\x1b[2J"),
        *("lease.1.2.3.4", "lease.1.2.3.4.-5", "lease.1.2.3.4.5", "lease.1.2.3.4.6"),
    }
    assert (found.holders, found.left) == ((), ())


def test_folders_of_cards_that_not_everybody_can_use(ledger: Path) -> None:
    """Not sticky, closed to others, or no folder at all."""
    for name, mode in (("GPU-1", 0o777), ("GPU-2", 0o755)):
        (ledger / name).mkdir()
        (ledger / name).chmod(mode)
    (ledger / "GPU-3").touch()
    ledger_in(ledger / "GPU-4")
    found = {os.path.basename(each.path): each.code for each in contents(ledger).faults}
    assert found == {"GPU-1": "not_sticky", "GPU-2": "read_only", "GPU-3": "no_folder"}


@pytest.mark.slow
def test_a_card_with_too_many_files(ledger: Path) -> None:
    """None of them is opened."""
    card = ledger_in(ledger / CARD)
    for number in range(MOST_FILES + 1):
        os.mknod(card / f"lease.{number}.2.3.4.5")
    found = contents(ledger)
    assert found.crowded == (str(card),)
    assert found.left == ()


def test_the_mutex_and_who_holds_it(ledger: Path) -> None:
    """Nobody, where it is not there or free; else the process that has it all the while."""
    absent = look(ledger).mutex
    assert absent is not None
    assert absent.holder is None
    with locker(ledger) as process:
        found = look(ledger).mutex
        assert found is not None
        assert (found.holder, found.is_ours) == (process.pid, True)
        assert found.held_s >= 0.2
    free = look(ledger).mutex
    assert free is not None
    assert (free.holder, free.problem) == (None, None)


def test_a_mutex_that_changes_hands_is_held_by_nobody_for_long(ledger: Path) -> None:
    """The look ends with the first change."""
    found: list[LedgerFacts] = []
    looker = threading.Thread(target=lambda: found.append(look(ledger, long_s=3600)), daemon=True)
    with locker(ledger):
        looker.start()
        while looker.is_alive() and not descriptors_of(str(ledger / "mutex")):
            time.sleep(0.01)
        time.sleep(0.2)  # it has the descriptor, and now sees who holds the lock
    with locker(ledger):
        looker.join(timeout=60)
    assert [each.mutex and each.mutex.holder for each in found] == [None]


def test_a_mutex_that_is_a_link_is_a_problem(ledger: Path) -> None:
    """Another user may have put it there."""
    (ledger / "mutex").symlink_to("/etc/passwd")
    found = look(ledger).mutex
    assert found is not None
    assert found.problem == os.strerror(40)  # ELOOP


def test_leases_of_these_cards_in_another_folder(ledger: Path, tmp_path: Path) -> None:
    """Of others' cards, or of programs that have ended, nothing is said."""
    other = ledger_in(tmp_path / "root/run/gpuconf")
    leave_dead(other)
    with holder(other, card="GPU-other"):
        assert look(ledger, root=tmp_path / "root").others == ()
    with holder(other) as process:
        (found,) = look(ledger, root=tmp_path / "root").others
    assert found.path == str(other)
    assert [each.pid for each in found.holders] == [process.pid]


def test_looking_changes_nothing(ledger: Path) -> None:
    """No mutex is made, nothing is swept, and nothing written."""
    leave_dead(ledger)
    (ledger / CARD / ".new.1.2").touch()
    (ledger / "mutex").unlink()
    with holder(ledger):
        (ledger / "mutex").unlink()
        before = listing(ledger)
        contents(ledger)
        assert listing(ledger) == before


def test_this_process_keeps_its_own_lease(tmp_path: Path) -> None:
    """It is not opened, since closing it again would drop its lock."""
    program = """
        import os, subprocess, sys
        from gpuconf.commands.doctor.gathering.leases import read_ledger_facts
        from gpuconf.machine.cards import Inventory
        from gpuconf.machine.leases.folder import find_folder
        from gpuconf.machine.leases.ledger import Ledger

        ledger = Ledger(find_folder())
        with ledger.mutex.held():
            ledger.take({"GPU-1": 5}, {}, 1)
        (own,) = read_ledger_facts(Inventory(), root="/nowhere").contents.holders
        asks = "import sys, gpuconf.machine.leases.files as f; print(f.is_locked(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", asks, ledger.held[0].path], check=True)
        print(own.pid == os.getpid())
        """
    assert run_python(program, tmp_path).split() == ["True", "True"]


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that every user can reach, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_what_another_user_can_do_there(everybodys: Path) -> None:
    """Nobody can remove root's leases, nor write in a folder that is closed to him."""
    program = """
        import encodings.ascii, os, sys  # all that the user below may not import
        from gpuconf.commands.doctor.gathering.leases import read_ledger_facts
        from gpuconf.machine.cards import Inventory

        if os.getuid() == 0:
            os.setresuid(65534, 65534, 65534)
        for name in ("shared", "closed"):
            environ = {"GPUCONF_LEASES": os.path.abspath(name)}
            found = read_ledger_facts(Inventory(), root="/nowhere", environ=environ)
            print(found.is_read_only, [each.may_remove for each in found.contents.left])
        """
    leave_dead(ledger_in(everybodys / "shared"))
    ledger_in(everybodys / "closed").chmod(0o555)
    is_his = os.getuid() != 0
    expected = [f"False [{is_his}]", "True []"]
    assert run_python(program, everybodys).splitlines() == expected


# As `fuser -s`, which not every machine has: whether a process has the file open.
_FUSER = """#!/bin/sh
for open in /proc/[0-9]*/fd/*; do
    [ "$open" -ef "$2" ] && exit 0
done
exit 1
"""


def test_the_command_for_what_is_left_keeps_running_processes(ledger: Path, tmp_path: Path) -> None:
    """Files of processes that have ended; those of running processes stay."""
    fuser = tmp_path / "bin" / "fuser"
    fuser.parent.mkdir()
    fuser.write_text(_FUSER)
    fuser.chmod(0o755)
    leave_dead(ledger, 2)
    (ledger / CARD / ".new.1.2").touch()
    words = shlex.split(_sweep(LedgerContents(path=str(ledger))).removeprefix("sudo "))
    path = f"{fuser.parent}{os.pathsep}{os.environ['PATH']}"
    with holder(ledger), holder(ledger, state="waits"):
        subprocess.run(words, check=True, env={"PATH": path})
        left = list((ledger / CARD).iterdir())
        assert [is_locked(str(each)) for each in left] == [True, True]
