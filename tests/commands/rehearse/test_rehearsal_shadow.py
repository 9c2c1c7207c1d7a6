"""What is written goes to a shadow; what is read, listed and removed agrees with that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconf.commands.rehearse.agent.shadow import Shadow


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Shadow, list[str]]:
    """A folder of the user's with two files, and a shadow elsewhere."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "a.txt").write_text("a")
    (mine / "b.txt").write_text("b")
    written: list[str] = []
    return mine, Shadow(str(tmp_path / "rehearsal"), written.append), written


def test_what_is_written_is_read_again(places: tuple[Path, Shadow, list[str]]) -> None:
    """A new file and a changed one are in the shadow; to append begins with what there was."""
    mine, shadow, written = places
    new, old, more = (str(mine / name) for name in ("new", "a.txt", "b.txt"))
    for path, keep in ((new, False), (old, False), (more, True)):
        with open(shadow.for_writing(path, keep=keep), "a", encoding="utf-8") as file:
            file.write("!")
    assert [Path(shadow.for_reading(path)).read_text() for path in (new, old, more)] == [
        *("!", "!", "b!")
    ]
    assert sorted(os.listdir(mine)) == ["a.txt", "b.txt"]
    assert ((mine / "a.txt").read_text(), (mine / "b.txt").read_text()) == ("a", "b")
    assert written == [new, old, more]
    assert sorted(shadow.listed(str(mine), os.listdir)) == ["a.txt", "b.txt", "new"]
    assert isinstance(shadow.for_reading(os.fsencode(new)), bytes)


def test_what_is_removed_is_hidden(places: tuple[Path, Shadow, list[str]]) -> None:
    """It is not there to be read or listed, until it is written again; the real one stays."""
    mine, shadow, _ = places
    path = str(mine / "a.txt")
    shadow.remove(path, os.remove)
    assert not os.path.exists(shadow.for_reading(path))
    assert list(shadow.listed(str(mine), os.listdir)) == ["b.txt"]
    with pytest.raises(FileNotFoundError):
        shadow.remove(path, os.remove)
    Path(shadow.for_writing(path)).write_text("again")
    assert sorted(shadow.listed(str(mine), os.listdir)) == ["a.txt", "b.txt"]
    assert (mine / "a.txt").read_text() == "a"


def test_a_folder_is_not_removed_with_its_files(places: tuple[Path, Shadow, list[str]]) -> None:
    """As the system has it: rmdir takes an empty one and remove a file; else nothing is hidden."""
    mine, shadow, _ = places
    with pytest.raises(OSError, match="not empty"):
        shadow.remove(str(mine), os.rmdir)
    with pytest.raises(IsADirectoryError):
        shadow.remove(str(mine), os.remove)
    assert shadow.for_reading(str(mine / "a.txt")) == str(mine / "a.txt")
    for name in ("a.txt", "b.txt"):
        shadow.remove(str(mine / name), os.remove)
    shadow.remove(str(mine), os.rmdir)
    assert shadow.is_hidden(str(mine))
    assert sorted(os.listdir(mine)) == ["a.txt", "b.txt"]


def test_what_is_moved(places: tuple[Path, Shadow, list[str]]) -> None:
    """A real file is copied and hidden, a shadow is moved; what is missing cannot be."""
    mine, shadow, _ = places
    first, second, third = (str(mine / name) for name in ("a.txt", "second", "b.txt"))
    shadow.move(first, second)
    shadow.move(second, third)
    assert Path(shadow.for_reading(third)).read_text() == "a"
    assert list(shadow.listed(str(mine), os.listdir)) == ["b.txt"]
    with pytest.raises(FileNotFoundError):
        shadow.move(first, second)
    assert sorted(os.listdir(mine)) == ["a.txt", "b.txt"]


def test_what_would_fail_fails_as_it_would(places: tuple[Path, Shadow, list[str]]) -> None:
    """A missing folder, a folder in place of a file, a file that must not be there."""
    mine, shadow, written = places
    for path, exclusive in ((mine / "no" / "a", False), (mine, False), (mine / "a.txt", True)):
        assert shadow.for_writing(str(path), exclusive=exclusive) == str(path)
    assert shadow.for_a_folder(str(mine)) == str(mine)
    assert written == []
    shadow.make_folders(str(mine / "no" / "more"))
    assert os.path.isdir(shadow.for_reading(str(mine / "no" / "more")))
    assert not (mine / "no").exists()


def test_what_has_no_shadow(places: tuple[Path, Shadow, list[str]]) -> None:
    """The system's files, the program's temporary ones, and those of the rehearsal itself."""
    mine, shadow, _ = places
    shadow.leave_alone(str(mine / "tmp123"))
    for path in ("/dev/null", str(mine / "tmp123" / "a"), str(mine.parent / "rehearsal" / "x")):
        assert shadow.for_writing(path) == shadow.for_reading(path) == path


STARTS = """
import os, sys
from gpuconf.commands.rehearse.agent.files import Files
from gpuconf.commands.rehearse.agent.record import AgentRecord

def stuck(what, why):
    raise SystemExit(what)

files = Files(AgentRecord(sys.argv[1]), when_stuck=stuck)
files.watch()
files.is_on = True
print(os.system("uname"), flush=True)
os.system("uname && touch made")
"""


def test_a_shell_does_no_more_than_look(tmp_path: Path) -> None:
    """A harmless program is started; not so a line of the shell that only begins with one."""
    words = [sys.executable, "-c", STARTS, str(tmp_path / "rehearsal")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [os.uname().sysname, "0"]
    assert done.stderr.strip() == "starting `uname && touch made`"
    assert not (tmp_path / "made").exists()
