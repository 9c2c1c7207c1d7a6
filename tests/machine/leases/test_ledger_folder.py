"""Which folder is the ledger, and what is said of one that cannot be."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.leasing.sudden_death import Death, arm
from gpuconf.machine.leases.folder import (
    MODE,
    VARIABLE,
    LedgerFolder,
    NoLedgerError,
    find_folder,
    make_sticky,
)
from gpuconf.machine.leases.lease import next_ticket
from gpuconf.machine.leases.ledger import Ledger
from gpuconf.machine.leases.mutex import FILE
from tests.machine.leases.processes import Child, child


def named(path: object, *, may_make: bool = True) -> LedgerFolder:
    """The ledger where the variable names ``path``."""
    return find_folder({VARIABLE: str(path)}, may_make=may_make)


@pytest.mark.parametrize("end", ["", "/", "//"])
def test_a_named_folder_is_made(end: str, tmp_path: Path) -> None:
    """Open to all and sticky, whatever the umask; and found again."""
    before = os.umask(0o077)
    try:
        found = named(f"{tmp_path}/ledger{end}")
    finally:
        os.umask(before)
    assert not found.is_read_only
    assert (tmp_path / "ledger").stat().st_mode & 0o7777 == MODE
    assert os.listdir(tmp_path) == ["ledger"]
    assert named(f"{tmp_path}/ledger{end}") == found


def test_who_only_looks_makes_nothing(tmp_path: Path) -> None:
    """As `gpuconf ps` does."""
    with pytest.raises(NoLedgerError, match="No such file"):
        named(tmp_path / "ledger", may_make=False)
    assert not os.listdir(tmp_path)


def test_another_program_makes_the_folder_at_this_moment(tmp_path: Path) -> None:
    """Both lease in that one: the second does not go on and make the next."""
    first, second, another = (tmp_path / name for name in ("first", "second", "another"))
    make_sticky(str(another))
    (another / FILE).touch()

    def race(event: str, _: object) -> None:
        if event == "os.mkdir" and another.exists():
            another.rename(first)

    def find(self: Child) -> None:
        sys.addaudithook(race)
        self.say(find_folder({}, defaults=(str(first), str(second))).path)

    with child(find) as finder:
        finder.expect(first)
    assert not second.exists()


def _plain(path: Path) -> None:
    path.write_text("")


def _open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def _dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize(
    ("make", "why"),
    [(_plain, "is not a folder"), (_open_to_all, "is not sticky"), (_dangling, "No such file")],
)
def test_no_folder_for_a_ledger(make: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    """Each is refused with its reason, and left as it is."""
    make(tmp_path / "ledger")
    with pytest.raises(NoLedgerError, match=why):
        named(tmp_path / "ledger")


def test_a_relative_path_is_none() -> None:
    """Every program would find another one."""
    with pytest.raises(NoLedgerError, match="is not an absolute path"):
        named("ledger")


@pytest.mark.parametrize("last", range(1, 5))
def test_killed_while_a_folder_is_made(last: int, tmp_path: Path) -> None:
    """It is there with its mode, or not at all: a closed one would shut others out for good."""

    def make(_: Child) -> None:
        arm(Death(call=last))
        make_sticky(str(tmp_path / "ledger"))

    with child(make) as maker:
        maker.end()
    if (tmp_path / "ledger").exists():
        assert (tmp_path / "ledger").stat().st_mode & 0o7777 == MODE
    named(tmp_path / "ledger")


@pytest.mark.parametrize("last", range(1, 30))
def test_killed_while_a_lease_is_taken(last: int, tmp_path: Path) -> None:
    """At whichever call: the next program takes its lease, and nothing is left afterwards."""
    root = tmp_path / "ledger"
    make_sticky(str(root))

    def take(_: Child) -> None:
        ledger = Ledger(LedgerFolder(str(root)))
        arm(Death(call=last))
        with ledger.mutex.held():
            ledger.take({"GPU-0": 5}, {"program": "a"}, next_ticket())

    with child(take) as taker:
        taker.end()
    ledger = Ledger(LedgerFolder(str(root)))
    with ledger.mutex.held():
        assert [ledger.leases(card, sweep=True) for card in ledger.cards()] in ([], [[]])
        ledger.take({"GPU-0": 7}, {}, next_ticket())
        ledger.release_except([])
    assert (root / "GPU-0").stat().st_mode & 0o7777 == MODE
    assert not list(root.glob("GPU-*/*"))


def test_an_existing_one_is_not_replaced(tmp_path: Path) -> None:
    """Whatever is there under that name."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("link", "folder"):
        with pytest.raises(FileExistsError):
            make_sticky(str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == ["folder", "link"]


def test_another_user_makes_the_next_folder_at_this_moment(tmp_path: Path) -> None:
    """As one who cannot make the first: the leases in both count."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")

    def race(event: str, _: object) -> None:
        if event == "os.mkdir" and os.path.exists(tmp_path / "made"):
            os.rename(tmp_path / "made", second)

    def find(self: Child) -> None:
        sys.addaudithook(race)
        found = find_folder({}, defaults=(first, second))
        self.say(f"{found.path} {found.others}")

    make_sticky(str(tmp_path / "made"))
    with child(find) as finder:
        finder.expect(f"{first} {(second,)}")


def test_a_folder_in_which_its_owner_alone_writes(tmp_path: Path) -> None:
    """As `sudo mkdir /run/gpuconf` makes it: root goes where the others are, and reads both."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    os.mkdir(first, 0o755)
    assert find_folder({}, defaults=(first, second), may_make=False).is_read_only
    found = find_folder({}, defaults=(first, second))
    assert (found.path, found.others) == (second, (first,))
