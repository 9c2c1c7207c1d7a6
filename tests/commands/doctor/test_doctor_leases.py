"""The doctor's look at the ledger: real folders, and real programs that hold leases in them."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gpuconf.commands.doctor.facts import LedgerFacts
from gpuconf.commands.doctor.gathering.leases import read_ledger_facts
from gpuconf.machine.leases.ledger import MOST_FILES
from tests.machine.leases.ledgers import CARD, held, ledger_in
from tests.programs.processes import run_python

MINE = {CARD: 512 << 20}


def look(folder: Path | str) -> LedgerFacts:
    """The facts of the ledger that $GPUCONF_LEASES names."""
    return read_ledger_facts(root="/nowhere", environ={"GPUCONF_LEASES": str(folder)})


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
    default = partial(read_ledger_facts, root=str(tmp_path), environ={})
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
    found = read_ledger_facts(root=str(tmp_path), environ={})
    assert (found.path, found.is_there) == (str(tmp_path / "dev/shm/gpuconf"), False)
    found = read_ledger_facts(root=str(tmp_path / "nowhere"), environ={})
    assert found.path is None
    assert [each.code for each in found.faults] == ["missing"] * 3


def test_what_lives_is_counted(ledger: Path) -> None:
    """Leases and places in the line by their locks; not what dead programs have left."""
    with held(ledger, MINE) as dead:
        dead.kill()
    (ledger / CARD / ".new.1.2").touch()
    (ledger / "README").touch()
    with held(ledger, MINE), held(ledger, MINE, namespace=7), held(ledger, MINE, waits=True):
        found = look(ledger)
    assert (found.granted, found.waiting) == (2, 1)
    assert (found.card_faults, found.problem) == ((), None)


def test_folders_of_cards_that_not_everybody_can_use(ledger: Path) -> None:
    """Not sticky, closed to others, or no folder at all."""
    for name, mode in (("GPU-1", 0o777), ("GPU-2", 0o755)):
        (ledger / name).mkdir()
        (ledger / name).chmod(mode)
    (ledger / "GPU-3").touch()
    ledger_in(ledger / "GPU-4")
    found = {os.path.basename(each.path): each.code for each in look(ledger).card_faults}
    assert found == {"GPU-1": "not_sticky", "GPU-2": "read_only", "GPU-3": "no_folder"}


def test_a_mutex_that_is_a_link_is_a_problem(ledger: Path) -> None:
    """Another user may have put it there."""
    (ledger / "mutex").symlink_to("/etc/passwd")
    assert look(ledger).problem == f"{ledger}/mutex: {os.strerror(errno.ELOOP)}"


@pytest.mark.slow
def test_a_card_with_too_many_files(ledger: Path) -> None:
    """Nothing is leased there, as a program says that starts."""
    card = ledger_in(ledger / CARD)
    for number in range(MOST_FILES + 1):
        os.mknod(card / f"lease.{number}.2.3.4.5")
    assert look(ledger).problem == f"{card} contains {MOST_FILES + 1} files"


def test_looking_changes_nothing(ledger: Path) -> None:
    """No mutex is made, nothing is swept, and nothing written."""
    with held(ledger, MINE) as dead:
        dead.kill()
    (ledger / CARD / ".new.1.2").touch()
    (ledger / "mutex").unlink()
    with held(ledger, MINE):
        (ledger / "mutex").unlink()
        before = listing(ledger)
        look(ledger)
        assert listing(ledger) == before


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that every user can reach, as pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_what_another_user_can_do_there(everybodys: Path) -> None:
    """Nobody cannot write in a folder that is closed to him."""
    program = """
        import encodings.ascii, os, sys  # all that the user below may not import
        from gpuconf.commands.doctor.gathering.leases import read_ledger_facts

        if os.getuid() == 0:
            os.setresuid(65534, 65534, 65534)
        for name in ("shared", "closed"):
            environ = {"GPUCONF_LEASES": os.path.abspath(name)}
            print(read_ledger_facts(root="/nowhere", environ=environ).is_read_only)
        """
    ledger_in(everybodys / "shared")
    ledger_in(everybodys / "closed").chmod(0o555)
    assert run_python(program, everybodys).splitlines() == ["False", "True"]
