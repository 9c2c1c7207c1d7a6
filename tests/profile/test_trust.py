"""The trust store: one file for each path and content, for this user alone."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuconf.errors import GpuconfError
from gpuconf.profile import trust
from tests.profile.other_users import giving_away


def environ(folder: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(folder / "state")}


def store(folder: Path) -> Path:
    return folder / "state" / "gpuconf" / "trusted"


def test_trust_is_of_a_path_and_a_content(tmp_path: Path) -> None:
    """Another path or one more byte is another file."""
    file = str(tmp_path / "a.yaml")
    assert not trust.is_trusted(file, b"x", environ(tmp_path))
    trust.record(file, b"x", environ(tmp_path))
    assert trust.is_trusted(file, b"x", environ(tmp_path))
    assert not trust.is_trusted(file, b"xy", environ(tmp_path))
    assert not trust.is_trusted(f"{file}x", b"", environ(tmp_path))
    assert not trust.is_trusted(str(tmp_path / "b.yaml"), b"x", environ(tmp_path))


def test_the_folders_of_a_path_are_real_ones(tmp_path: Path) -> None:
    """One folder by two names is one; a link in place of the file is another file."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    trust.record(str(tmp_path / "link" / "a.yaml"), b"x", environ(tmp_path))
    assert trust.is_trusted(str(tmp_path / "real" / "a.yaml"), b"x", environ(tmp_path))
    (tmp_path / "a.yaml").symlink_to("real/a.yaml")
    assert not trust.is_trusted(str(tmp_path / "a.yaml"), b"x", environ(tmp_path))


def test_where_it_is_kept(tmp_path: Path) -> None:
    """XDG_STATE_HOME, else ~/.local/state; a folder and files for this user alone."""
    trust.record("/a.yaml", b"x", {"HOME": str(tmp_path), "XDG_STATE_HOME": "relative"})
    folder = tmp_path / ".local" / "state" / "gpuconf" / "trusted"
    (record,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert record.read_bytes() == b"/a.yaml"


@pytest.mark.parametrize("name", ["a\nb.yaml", "ü.yaml", "\udcff.yaml", "a b'.yaml"])
def test_odd_names(name: str, tmp_path: Path) -> None:
    """A path is any bytes."""
    file = tmp_path / name
    file.write_bytes(b"x")
    trust.record(str(file), b"x", environ(tmp_path))
    assert trust.trusted_files(environ(tmp_path)) == [trust.TrustedFile(str(file), "trusted")]


def test_records_of_others_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to load a profile nor in the list."""
    trust.record("/a.yaml", b"x", environ(tmp_path))
    (record,) = store(tmp_path).iterdir()
    giving_away(monkeypatch)(record)
    assert not trust.is_trusted("/a.yaml", b"x", environ(tmp_path))
    assert trust.trusted_files(environ(tmp_path)) == []


def test_a_record_that_is_no_ordinary_file(tmp_path: Path) -> None:
    """A link or a pipe of the right name is not trust, and blocks nobody."""
    trust.record("/a.yaml", b"x", environ(tmp_path))
    assert trust.is_trusted("/a.yaml", b"x", environ(tmp_path))
    (record,) = store(tmp_path).iterdir()
    record.rename(tmp_path / "moved")
    record.symlink_to(tmp_path / "moved")
    assert not trust.is_trusted("/a.yaml", b"x", environ(tmp_path))
    record.unlink()
    os.mkfifo(record)
    assert not trust.is_trusted("/a.yaml", b"x", environ(tmp_path))


def test_the_list_says_what_became_of_each(tmp_path: Path) -> None:
    """Trusted, changed or gone; a file with two trusted contents is one entry."""
    for name in ("same", "changed", "gone"):
        (tmp_path / name).write_bytes(b"1")
        trust.record(str(tmp_path / name), b"1", environ(tmp_path))
    trust.record(str(tmp_path / "same"), b"2", environ(tmp_path))
    (tmp_path / "changed").write_bytes(b"2")
    (tmp_path / "gone").unlink()
    states = {Path(f.path).name: f.state for f in trust.trusted_files(environ(tmp_path))}
    assert states == {"same": "trusted", "changed": "changed", "gone": "gone"}


def test_revoking(tmp_path: Path) -> None:
    """Every content of the path, and no other path."""
    for path, data in (("/a", b"1"), ("/a", b"2"), ("/b", b"1")):
        trust.record(path, data, environ(tmp_path))
    assert trust.revoke("/a", environ(tmp_path))
    assert not trust.revoke("/a", environ(tmp_path))
    assert [entry.path for entry in trust.trusted_files(environ(tmp_path))] == ["/b"]


def test_many_at_once(tmp_path: Path) -> None:
    """Processes that trust the same file at the same moment leave one whole record."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: trust.record("/a", b"1", environ(tmp_path)), range(40)))
    assert [path.read_bytes() for path in store(tmp_path).iterdir()] == [b"/a"]


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    """Nothing is recorded there."""
    store(tmp_path).mkdir(parents=True)
    store(tmp_path).chmod(0o777)
    with pytest.raises(GpuconfError, match="others have permission to write") as caught:
        trust.record("/a", b"1", environ(tmp_path))
    assert "ls -ld" in str(caught.value.hint)
    assert list(store(tmp_path).iterdir()) == []


def test_no_place_to_keep_it(tmp_path: Path) -> None:
    """A file in the folder's place, and neither HOME nor XDG_STATE_HOME: one error each."""
    (tmp_path / "state").write_text("")
    with pytest.raises(GpuconfError, match="cannot be written: Not a directory"):
        trust.record("/a", b"1", environ(tmp_path))
    with pytest.raises(GpuconfError, match="no folder to store trust records in"):
        trust.record("/a", b"1", {})
    assert not trust.is_trusted("/a", b"1", {})
    assert trust.trusted_files({}) == []


def test_a_store_that_others_may_write_to_is_not_believed(tmp_path: Path) -> None:
    """A record holds a path and is named by a hash: whoever can write there could make one."""
    environ = {"HOME": str(tmp_path)}
    trust.record(str(tmp_path / "gpuconf.yaml"), b"text", environ)
    assert trust.is_trusted(str(tmp_path / "gpuconf.yaml"), b"text", environ)
    (tmp_path / ".local" / "state" / "gpuconf" / "trusted").chmod(0o777)
    assert not trust.is_trusted(str(tmp_path / "gpuconf.yaml"), b"text", environ)
