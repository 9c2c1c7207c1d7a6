"""A ledger's folder that somebody fills with rubbish, or that is full, closed, or read-only.

Nothing is counted that no process holds, nothing hangs, and no program is stopped.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuconf.leases.files import read_note
from gpuconf.leases.folder import NoLedgerError
from gpuconf.leases.lease import file_name, next_ticket, this_process
from gpuconf.leases.ledger import MOST_FILES, Ledger
from tests.leases.line import ONE_CARD, START
from tests.leases.processes import Child, child
from tests.leases.test_ledger import (
    _USER,
    CARD,
    files,
    holding,
    ledger,
    needs_root,
    readable_by_all,
    root,
    sizes,
    start_other,
)
from tests.processes import Nvml, clean_environment, run_python

__all__ = ["ledger", "root"]  # fixtures
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
    "kind", [pytest.param(each, marks=[needs_root] * (each == "device")) for each in KINDS]
)
def test_other_kinds_of_files(kind: str, name: str, root: Path, ledger: Ledger) -> None:
    """Under a lease's name as well: none is waited for, none is followed, none counts."""
    with child(holding(root, {CARD: 100})) as holder:
        holder.expect("holds")
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
    """Bytes that are no UTF-8, and numbers beyond all bounds."""
    with child(holding(root, {CARD: 100})) as holder:
        holder.expect("holds")
        Path(os.fsdecode(os.fsencode(root / CARD) + b"/" + name)).touch()
        with ledger.mutex.held():
            assert [each.size_bytes for each in ledger.leases(CARD, sweep=True)] == [100]
            assert ledger.waiting(CARD, sweep=True) == []


def test_files_that_bear_our_own_name(root: Path, ledger: Ledger) -> None:
    """What somebody made for our pid is not counted, and goes with our next lease."""
    (root / CARD).mkdir()
    for size in (1, 10**18):
        (root / CARD / file_name("lease", 1, this_process(), size)).touch()
    (root / CARD / file_name("waits", 1, this_process(), 5)).touch()
    assert ledger.leases(CARD, sweep=True) == ledger.waiting(CARD, sweep=True) == []
    (root / CARD).chmod(0o1777)
    with ledger.mutex.held():
        ledger.adopt()
        ledger.take({CARD: 7}, {}, next_ticket())
    assert [each.size_bytes for each in ledger.held] == [7]
    assert len(files(root)) == 1
    ledger.release_but([])


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
    """Is not read to its end each time: it is no ledger, which costs nobody his program."""
    (root / CARD).mkdir(mode=0o1777)
    for number in range(MOST_FILES + 1):
        (root / CARD / f"lease.{number}.2.3.4.5").touch()
    for ask in (ledger.leases, ledger.waiting):
        with pytest.raises(NoLedgerError, match=f"holds {MOST_FILES + 1} files"):
            ask(CARD)


def test_folders_for_too_many_cards(root: Path, ledger: Ledger) -> None:
    """The same."""
    for number in range(1001):
        (root / f"GPU-{number}").mkdir()
    with pytest.raises(NoLedgerError, match="folders for 1001 cards"):
        ledger.cards()


def test_a_cards_folder_that_is_not_sticky(root: Path, ledger: Ledger) -> None:
    """Every user could remove another's lease there, so none is taken."""
    (root / CARD).mkdir()
    (root / CARD).chmod(0o777)
    with pytest.raises(NoLedgerError, match="is no sticky folder"):
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


@needs_root
def test_a_closed_file_of_another_user(root: Path) -> None:
    """What we cannot open was not made by us: it does not count, and stays."""
    readable_by_all(root)
    with child(holding(root, {CARD: 100})) as holder:
        holder.expect("holds")
        closed = root / CARD / RUBBISH
        closed.touch(mode=0o600)
        other = start_other(_USER, root)
        assert other.stdout is not None
        assert other.stdout.readline() == "[100]\n"
        other.communicate("\n", timeout=30)
        assert closed.exists()


# --- whole programs: each gets its plan, and at most one line says what it lacks -----------------

_PROGRAM = """
made = plan(OwnLeases(), profile({mib}))
print(sizes(made), *made.notes, sep="\\n")
"""


def planned(folder: Path, environ: dict[str, str], mib: int, *before: str) -> list[str]:
    """What a program prints that plans for ``mib``: its leases, and each note."""
    script = folder / "program.py"
    script.write_text(START + _PROGRAM.format(mib=mib))
    done = subprocess.run(
        [*before, sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env=clean_environment(folder, environ),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


def in_mounts(command: str) -> list[str]:
    """What comes before a program that has mounts of its own, made by ``command``."""
    return ["unshare", "--mount", "sh", "-c", f'{command} && exec "$@"', "sh"]


@pytest.fixture
def made_ledger(tmp_path: Path) -> Path:
    """A ledger where programs of this test find it, ready to be mounted over."""
    folder = tmp_path / "leases"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_a_program_and_a_huge_folder(tmp_path: Path, made_ledger: Path, nvml: Nvml) -> None:
    """It says so, once, and goes on."""
    card = made_ledger / ONE_CARD.cards[0].uuid
    card.mkdir(mode=0o1777)
    for number in range(20_000):
        os.close(os.open(card / f"rubbish{number}", os.O_CREAT))
    got, *notes = planned(tmp_path, nvml(ONE_CARD), 1024)
    assert got == "[1024]"
    assert len(notes) == 1
    assert "nothing is leased" in notes[0]
    assert "holds 20000 files" in notes[0]


@needs_root
@pytest.mark.parametrize(
    ("options", "taken"), [("nr_inodes=2", False), ("nr_inodes=3", False), ("size=4k", True)]
)
def test_a_full_file_system(
    options: str, taken: bool, tmp_path: Path, made_ledger: Path, nvml: Nvml
) -> None:
    """Without a file there is no lease; where only its text finds no room there is one."""
    mount = f"mount -t tmpfs -o mode=1777,{options} none {made_ledger}"
    if taken:
        mount += f" && head -c 4096 /dev/zero > {made_ledger}/full"
    got, *notes = planned(tmp_path, nvml(ONE_CARD), 1024, *in_mounts(mount))
    assert got == "[1024]"
    assert ["No space left on device" in note for note in notes] == [True] * (not taken)


@needs_root
@pytest.mark.parametrize("mutex", [True, False])
def test_a_read_only_mount(mutex: bool, tmp_path: Path, made_ledger: Path, nvml: Nvml) -> None:
    """Others' leases count, none is taken, and one line says so."""
    uuid = str(ONE_CARD.cards[0].uuid)
    with child(holding(made_ledger, {uuid: 6 << 30})) as holder:
        holder.expect("holds")
        if not mutex:
            (made_ledger / "mutex").unlink()
        mount = f"mount --bind -o ro {made_ledger} {made_ledger}"
        fits, *notes = planned(tmp_path, nvml(ONE_CARD), 2048, *in_mounts(mount))
        assert fits == "[2048]"
        assert len(notes) == 1
        assert "nothing is leased" in notes[0]
        assert len(files(made_ledger)) == 1
        with pytest.raises(subprocess.CalledProcessError) as error:
            planned(tmp_path, nvml(ONE_CARD), 2049, *in_mounts(mount))
        assert "2048 MiB is left" in error.value.stderr


@needs_root
def test_a_cards_folder_closed_by_another_user(
    tmp_path: Path, made_ledger: Path, nvml: Nvml
) -> None:
    """One that has closed a card's folder to all others keeps nobody from the card."""
    environ = nvml(ONE_CARD)
    readable_by_all(Path(environ["STANDIN_NVML"]))
    readable_by_all(made_ledger)
    (made_ledger / ONE_CARD.cards[0].uuid).mkdir(mode=0o700)
    tmp_path.chmod(0o777)  # for its profile
    got, *notes = planned(tmp_path, environ, 1024, *_USER)
    assert got == "[1024]"
    assert len(notes) == 1
    assert "Permission denied" in notes[0]


def test_a_clock_that_jumps(tmp_path: Path, nvml: Nvml) -> None:
    """Nothing depends on the time of day: leases and the line are as ever."""
    program = """
import itertools
jumps = itertools.cycle([0.0, 4e9, 1e9, -1e9])
time.time = lambda: next(jumps)
time.time_ns = lambda: int(1e9 * next(jumps))
with child(asks(6144)) as a:
    a.expect("got 6144 of 0")
    with child(asks(5120, WAITS)) as b:
        waiting(1)
        with child(asks(5120, WAITS)) as c:
            waiting(2)
            a.go()
            b.expect("got 5120 of 0")
            b.go()
            c.expect("got 5120 of 0")
"""
    run_python(START + program, tmp_path, environ=nvml(ONE_CARD))


def test_tickets_are_of_the_clock_that_nobody_sets() -> None:
    """Of the time since the machine's start, with its sleep."""
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert before <= next_ticket() <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
