"""A ledger's folder that somebody fills with rubbish, or that is full, closed, or read-only.

Nothing is counted that no process holds, nothing hangs, and no program is stopped.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconf.machine.leases.files import read_note
from gpuconf.machine.leases.folder import NoLedgerError
from gpuconf.machine.leases.lease import file_name, next_ticket, this_process
from gpuconf.machine.leases.ledger import MOST_FILES, Ledger
from tests.machine.leases.ledgers import (
    CARD,
    as_user,
    files,
    held,
    readable_by_all,
    sizes,
    start_other,
)
from tests.machine.leases.processes import Child, child

pytestmark = pytest.mark.slow  # starts many programs

RUBBISH = "lease.1.2.3.4.5"


def _device(path: str) -> None:
    os.mknod(path, 0o020666, os.makedev(1, 8))  # /dev/random


def _socket(path: str) -> None:
    before = os.getcwd()
    os.chdir(os.path.dirname(path))  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.basename(path))
    os.chdir(before)


KINDS: dict[str, Callable[[str], object]] = {
    "link": lambda path: os.symlink("/etc/passwd", path),
    "link to itself": lambda path: os.symlink(path, path),
    "link to a folder": lambda path: os.symlink("/proc", path),
    "pipe": os.mkfifo,
    "socket": _socket,
    "folder": os.mkdir,
    "file": lambda path: Path(path).write_bytes(b"\x1b[2J" * 10_000),
    "device": _device,
}


# --- files that are not ours ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [RUBBISH, "waits.1.2.3.4.5", ".new.1.2", "README"])
@pytest.mark.parametrize(
    "kind",
    [pytest.param(each, marks=[pytest.mark.needs_root] * (each == "device")) for each in KINDS],
)
def test_other_kinds_of_files(kind: str, name: str, root: Path, ledger: Ledger) -> None:
    """Under a lease's name as well: none is waited for, none is followed, none counts."""
    with held(root, {CARD: 100}):
        KINDS[kind](str(root / CARD / name))
        with ledger.mutex.held():
            assert sizes(ledger) == [100]
            assert ledger.waiting(CARD, sweep=True) == []
            assert [each.size_bytes for each in ledger.leases(CARD, sweep=True)] == [100]
            ledger.adopt()
        assert ledger.held == ()
        is_left = kind == "folder" or name == "README"
        assert os.path.lexists(root / CARD / name) == is_left
    assert Path("/etc/passwd").exists()


@pytest.mark.parametrize(
    "name",
    [
        b"lease.\xff.1.2.3.4.5",
        b"\xff\xfe",
        b"lease." + b"9" * 240,
        b"lease.9999999999999999999.9999999999999999999.9999999999999999999.1.9999999999999999999",
        b"waits.0.0.0.0.9999999999999999999",
        b"lease.1.2.3.4.5\n\x1b[2J",
    ],
)
def test_names(name: bytes, root: Path, ledger: Ledger) -> None:
    """Bytes that are not UTF-8, and numbers beyond all bounds."""
    with held(root, {CARD: 100}):
        Path(os.fsdecode(os.fsencode(root / CARD) + b"/" + name)).touch()
        with ledger.mutex.held():
            assert [each.size_bytes for each in ledger.leases(CARD, sweep=True)] == [100]
            assert ledger.waiting(CARD, sweep=True) == []


def test_files_that_bear_our_own_name(root: Path, ledger: Ledger) -> None:
    """What somebody made for our pid is not counted, and gives us neither a place nor a lease."""
    (root / CARD).mkdir()
    (root / CARD).chmod(0o1777)
    for ticket in (1, 10**19 - 1):
        (root / CARD / file_name("lease", ticket, this_process(), 10**18)).touch()
    (root / CARD / file_name("waits", 1, this_process(), 5)).touch()
    assert ledger.leases(CARD, sweep=True) == ledger.waiting(CARD, sweep=True) == []
    with ledger.mutex.held():
        ledger.adopt()
        assert ledger.held == ()
        ledger.take({CARD: 7}, {}, next_ticket())
    with child(lambda self: self.say(sizes(Ledger(ledger.folder)))) as other:
        other.expect("[7]")
    ledger.release_except([])


def test_what_a_holder_says_of_itself(ledger: Ledger) -> None:
    """No escape sequence comes through, no line is without an end."""
    note = {"program": "\x1b[2Jevil\x07\u202e", "profile": "x" * 100_000, "more": "a\nb=c"}

    def act(self: Child) -> None:
        own = Ledger(ledger.folder)
        own.take({CARD: 100}, note, next_ticket())
        self.say("holds")
        self.wait()

    with child(act) as holder:
        holder.expect("holds")
        (lease,) = ledger.leases(CARD)
        read = read_note(lease)
        assert read["program"].isprintable()
        assert "\x1b" not in str(read)
        assert len(read["profile"]) < 5000
        Path(lease.path).write_bytes(b"program=\xff\xfe\n===\n\nno equals sign\nprogram=last")
        assert read_note(lease)["program"] == "last"


# --- folders ------------------------------------------------------------------------------------


def test_a_huge_folder(root: Path, ledger: Ledger) -> None:
    """Is not read to its end each time: it is not a ledger, which costs nobody his program."""
    (root / CARD).mkdir(mode=0o1777)
    for number in range(MOST_FILES + 1):
        (root / CARD / f"lease.{number}.2.3.4.5").touch()
    for ask in (ledger.leases, ledger.waiting):
        with pytest.raises(NoLedgerError, match=f"contains {MOST_FILES + 1} files"):
            ask(CARD)


def test_folders_for_too_many_cards(root: Path, ledger: Ledger) -> None:
    """The same."""
    for number in range(1001):
        (root / f"GPU-{number}").mkdir()
    with pytest.raises(NoLedgerError, match="folders for 1001 GPUs"):
        ledger.cards()


def test_a_cards_folder_that_is_not_sticky(root: Path, ledger: Ledger) -> None:
    """Every user could remove another's lease there, so none is taken."""
    (root / CARD).mkdir()
    (root / CARD).chmod(0o777)
    with pytest.raises(NoLedgerError, match="is not a sticky folder"):
        ledger.take({CARD: 7}, {}, next_ticket())
    assert files(root) == []


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/tmp", path)])
def test_no_folder_in_a_cards_place(
    make: Callable[[str], None], root: Path, ledger: Ledger
) -> None:
    """A link would lead a lease elsewhere."""
    make(f"{root}/{CARD}")
    assert ledger.cards() == []
    with pytest.raises(NoLedgerError, match=CARD):
        ledger.take({CARD: 7}, {}, next_ticket())


@pytest.mark.needs_root
def test_a_closed_file_of_another_user(root: Path) -> None:
    """What we cannot open was not made by us: it does not count, and stays."""
    readable_by_all(root)
    with held(root, {CARD: 100}):
        closed = root / CARD / RUBBISH
        closed.touch(mode=0o600)
        other = start_other(as_user(), root)
        assert other.stdout is not None
        assert other.stdout.readline() == "[100]\n"
        other.communicate("\n", timeout=30)
        assert closed.exists()
