"""Every wrong file gives one error that says where, what, the rule, and what to write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from gpuconf.errors import ProfileError
from gpuconf.profile import check_profile, load_profile
from tests.profile.bad_profiles import BAD_PROFILES, BadProfile

# The greediest file takes some 600 000 calls, nearly all of them PyYAML's; without the limit on
# mistakes 2000 of them take 2 million.  A count is the same on a loaded machine, a time is not.
MOST_CALLS = 1_000_000


def calls_made_by(work: Callable[[], object]) -> int:
    """How many Python functions ``work`` calls, whatever it raises."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    except ProfileError:
        pass
    finally:
        sys.setprofile(before)
    return calls


def write(bad: BadProfile, folder: Path) -> Path:
    """The file in ``folder``; what its code would make is the file ``executed`` next to it."""
    file = folder / "bad.yaml"
    file.write_bytes(bad.content.replace(b"%MARKER%", os.fsencode(folder / "executed")))
    return file


@pytest.mark.parametrize("bad", BAD_PROFILES, ids=[bad.name for bad in BAD_PROFILES])
def test_one_error_with_place_rule_and_hint(bad: BadProfile, tmp_path: Path) -> None:
    """One ProfileError, at the line and column of the mistake, and nothing runs."""
    file = write(bad, tmp_path)
    with pytest.raises(ProfileError) as caught:
        load_profile(file, environ={}, directory=tmp_path)
    error = caught.value
    assert (error.file, error.line, error.column) == (str(file), bad.line, bad.column)
    assert bad.says in error.message
    assert error.hint is not None
    assert bad.hint in error.hint
    assert len(str(error)) < 1000
    assert all(line.isprintable() for line in str(error).split("\n"))
    assert not (tmp_path / "executed").exists()


@pytest.mark.slow
def test_none_takes_much_work(tmp_path: Path) -> None:
    """Neither deep nor wide nor self-referring files make the reader work without end."""
    calls = {}
    for bad in BAD_PROFILES:
        file = write(bad, tmp_path)
        calls[bad.name] = calls_made_by(partial(load_profile, file, environ={}, directory=tmp_path))
    assert {name: made for name, made in calls.items() if not 0 < made < MOST_CALLS} == {}


def test_check_reports_just_that_one(tmp_path: Path) -> None:
    """One mistake is one entry: nothing else is made up in its wake."""
    for bad in BAD_PROFILES:
        errors = check_profile(write(bad, tmp_path), environ={}, directory=tmp_path)
        places = [(error.line, error.column) for error in errors]
        assert places == [(bad.line, bad.column)], bad.name


def test_check_reports_every_mistake_in_the_order_of_the_file(tmp_path: Path) -> None:
    """A person sees all mistakes at once; loading stops at the first."""
    file = tmp_path / "bad.yaml"
    file.write_text("memry: {}\nmemory:\n  keep_free: 1\n  at_least: x\ngpus: 0\n")
    errors = check_profile(file, environ={}, directory=tmp_path)
    assert [error.key for error in errors] == [
        "memry",
        "memory.keep_free",
        "memory.at_least",
        "gpus",
    ]
    with pytest.raises(ProfileError, match="memry"):
        load_profile(file, environ={}, directory=tmp_path)


@pytest.mark.slow
def test_two_thousand_mistakes_take_little_work(tmp_path: Path) -> None:
    """Twenty are told; for each of 2000 the nearest key would be sought with millions of calls."""
    file = tmp_path / "bad.yaml"
    file.write_text("".join(f"memory_limi{i}: 1\n" for i in range(2000)))
    assert len(check_profile(file, environ={})) == 20
    assert 0 < calls_made_by(lambda: check_profile(file, environ={})) < MOST_CALLS


def test_the_text_of_an_error_can_be_jumped_to(tmp_path: Path) -> None:
    """Editors and terminals follow ``file:line:column:`` at the start."""
    file = tmp_path / "bad.yaml"
    file.write_text("gpus: all\nmemory: {memory_limit: 4096}\n")
    with pytest.raises(ProfileError) as caught:
        load_profile(file, environ={}, directory=tmp_path)
    assert str(caught.value).startswith(f"{file}:2:24: memory.memory_limit: ")


def test_a_folder_is_no_profile(tmp_path: Path) -> None:
    """A folder is refused."""
    with pytest.raises(ProfileError, match="folder"):
        load_profile(tmp_path, environ={})


def test_what_is_no_ordinary_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """Opening a named pipe would wait for a writer for ever; /dev/zero never ends."""
    os.mkfifo(tmp_path / "pipe.yaml")
    for file in (tmp_path / "pipe.yaml", "/dev/zero"):
        with pytest.raises(ProfileError, match="not a regular file"):
            load_profile(file, environ={})


def test_a_file_that_lies_about_its_size_is_cut_off() -> None:
    """Files in /proc say they hold 0 bytes; what is read is limited, and is not a profile."""
    with pytest.raises(ProfileError):
        load_profile("/proc/self/maps", environ={})


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Root may read everything, so the test becomes nobody for a moment where it runs as root."""
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    yield
    if was_root:
        os.seteuid(0)


def test_an_unreadable_file_is_refused(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Lack of permission is told, with the command that grants it."""
    file = tmp_path / "secret.yaml"
    file.write_text("{}")
    file.chmod(0)
    request.getfixturevalue("unprivileged")
    with pytest.raises(ProfileError, match="no permission to read") as caught:
        load_profile(file, environ={})
    assert "chmod" in str(caught.value.hint)
