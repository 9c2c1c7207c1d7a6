"""Where a profile is looked for, and which of several rules."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuconf.errors import ProfileNotFoundError
from gpuconf.profile import check_profile, find_profile, list_profiles, load_profile
from gpuconf.profile.problems import nearest
from gpuconf.profile.search import DEFAULT_PROFILE

SHIPPED = {
    *("shared-desktop", "dedicated", "half-card", "virtual-pair", "small-laptop"),
    *("notebook", "keras-v1-session", "cpu-only"),
}


def write(path: Path, description: str) -> Path:
    """Write a profile that can be told by its description."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"description: {description}\n")
    return path


def described(name: str | None, folder: Path, **environ: str) -> str | None:
    return load_profile(name, environ=environ, directory=folder).description


def test_an_empty_variable_is_unset(tmp_path: Path) -> None:
    """GPUCONF_PROFILE= in a shell's profile changes nothing."""
    write(tmp_path / "gpuconf.yaml", "project")
    assert described(None, tmp_path, GPUCONF_PROFILE=" ") == "project"


def test_the_users_folder_without_xdg(tmp_path: Path) -> None:
    """~/.config is used where XDG_CONFIG_HOME is unset, empty or, as XDG says, relative."""
    write(tmp_path / "home" / ".config" / "gpuconf" / "mine.yaml", "user")
    project = tmp_path / "project"
    project.mkdir()
    home = str(tmp_path / "home")
    assert described("mine", project, HOME=home) == "user"
    assert described("mine", project, USERPROFILE=home) == "user"  # on Windows
    assert described("mine", project, HOME=home, XDG_CONFIG_HOME="") == "user"
    assert described("mine", project, HOME=home, XDG_CONFIG_HOME="relative") == "user"
    with pytest.raises(ProfileNotFoundError):
        load_profile("mine", environ={}, directory=project)


def test_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    """The nearest folder rules; beyond the folder with .git nothing is looked at."""
    write(tmp_path / "gpuconf.yaml", "outside")
    repository = tmp_path / "repository"
    deep = repository / "a" / "b"
    deep.mkdir(parents=True)
    (repository / ".git").mkdir()
    assert load_profile(environ={}, directory=deep).name == DEFAULT_PROFILE
    write(repository / "gpuconf.yaml", "root")
    write(repository / ".gpuconf" / "named.yaml", "named")
    assert described(None, deep) == "root"
    assert described("named", deep) == "named"
    write(repository / "a" / "gpuconf.yaml", "nearer")
    assert described(None, deep) == "nearer"
    assert described("project", deep) == "nearer"


def test_up_to_the_home_folder_without_a_repository(tmp_path: Path) -> None:
    """Below home every folder counts, home itself does not."""
    deep = tmp_path / "home" / "work" / "deep"
    deep.mkdir(parents=True)
    write(tmp_path / "home" / "gpuconf.yaml", "home")
    assert load_profile(environ={"HOME": str(tmp_path / "home")}, directory=deep).name == (
        DEFAULT_PROFILE
    )
    write(tmp_path / "home" / "work" / "gpuconf.yaml", "work")
    assert described(None, deep, HOME=str(tmp_path / "home")) == "work"


def test_elsewhere_the_directory_alone(tmp_path: Path) -> None:
    """A file that somebody else put into /tmp must not rule a script in /tmp/mine."""
    deep = tmp_path / "mine"
    deep.mkdir()
    write(tmp_path / "gpuconf.yaml", "planted")
    assert load_profile(environ={"HOME": "/home/somebody"}, directory=deep).name == DEFAULT_PROFILE
    write(deep / "gpuconf.yaml", "own")
    assert described(None, deep, HOME="/home/somebody") == "own"


def test_what_is_a_path(tmp_path: Path) -> None:
    """A slash or a .yaml at the end make a path, relative to the directory; so does a path object.

    A tilde is the home folder: GPUCONF_PROFILE=~/x.yaml in a service file is expanded by no shell.
    """
    for name in ("own.yaml", "./own.yaml", "own.yml", "folder/own", "~/mine.yaml"):
        file = write(tmp_path / name.removeprefix("~/"), name)
        assert described(name, tmp_path, HOME=str(tmp_path)) == name
        assert find_profile(name, environ={"HOME": str(tmp_path)}, directory=tmp_path).origin == (
            "path"
        )
    assert load_profile(file.rename(tmp_path / "plain"), environ={}).description == "~/mine.yaml"


def test_yml_is_as_good_as_yaml(tmp_path: Path) -> None:
    """A gpuconf.yml that is passed over would leave its author without protection."""
    write(tmp_path / "gpuconf.yml", "yml")
    assert described(None, tmp_path) == "yml"
    write(tmp_path / "gpuconf.yaml", "yaml")
    assert described(None, tmp_path) == "yaml"


def test_a_broken_link_is_told(tmp_path: Path) -> None:
    """It is the project's file anyway, not a reason to take another profile."""
    (tmp_path / "gpuconf.yaml").symlink_to("nowhere.yaml")
    with pytest.raises(ProfileNotFoundError, match="a link to a file that does not exist"):
        load_profile(environ={}, directory=tmp_path)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shared-destkop", "did you mean shared-desktop?"),
        ("SHARED_DESKTOP", "did you mean shared-desktop?"),
        ("xyzzy", "gpuconf profiles list"),
        ("a\x00b", "gpuconf profiles list"),
        ("\ud800", "gpuconf profiles list"),
        ("a" * 5000, "gpuconf profiles list"),
    ],
)
def test_an_unknown_name_suggests_one(name: str, hint: str, tmp_path: Path) -> None:
    """With the nearest there is, and never with a crash in the file system."""
    with pytest.raises(ProfileNotFoundError, match="no profile named") as caught:
        load_profile(name, environ={}, directory=tmp_path)
    assert hint in str(caught.value.hint)
    str(caught.value).encode("utf-8")


def test_an_unknown_name_says_who_asked_for_it(tmp_path: Path) -> None:
    """Somebody who forgot the variable must see it."""
    with pytest.raises(ProfileNotFoundError, match="GPUCONF_PROFILE"):
        load_profile(environ={"GPUCONF_PROFILE": "xyzzy"}, directory=tmp_path)
    with pytest.raises(ProfileNotFoundError):
        check_profile("xyzzy", environ={}, directory=tmp_path)


def test_a_missing_file_suggests_its_neighbor(tmp_path: Path) -> None:
    """The file of nearly that name next to it."""
    write(tmp_path / "training.yaml", "x")
    with pytest.raises(ProfileNotFoundError, match="no such file") as caught:
        load_profile("trainin.yaml", environ={}, directory=tmp_path)
    assert "training.yaml?" in str(caught.value.hint)


@pytest.mark.parametrize("path", ["", ".", "..", "./a\x00b.yaml", "./\ud800.yaml", "x/" * 3000])
def test_odd_paths_are_refused(path: str, tmp_path: Path) -> None:
    """As profiles, not by an error of the operating system."""
    errors = check_profile(path, environ={}, directory=tmp_path)
    assert len(errors) == 1


def test_a_deleted_working_directory_is_no_project(tmp_path: Path) -> None:
    """A script continues with the default."""
    gone = tmp_path / "gone"
    gone.mkdir()
    back = os.getcwd()
    os.chdir(gone)
    gone.rmdir()
    try:
        assert load_profile(environ={}).name == DEFAULT_PROFILE
    finally:
        os.chdir(back)


def test_everything_is_listed(tmp_path: Path) -> None:
    """Name, origin, description, and what is shadowed or broken."""
    write(tmp_path / "gpuconf.yaml", "own")
    write(tmp_path / ".gpuconf" / "notebook.yaml", "mine")
    (tmp_path / ".gpuconf" / "broken.yaml").write_text("memry: {}")
    (tmp_path / ".gpuconf" / "notes.txt").write_text("no profile")
    (tmp_path / ".gpuconf" / ".hidden.yaml").write_text("{}")
    config = tmp_path / "config"
    write(config / "gpuconf" / "usual.yaml", "user")
    entries = list_profiles(environ={"XDG_CONFIG_HOME": str(config)}, directory=tmp_path)
    own = [(e.name, e.origin, e.description) for e in entries if e.origin != "shipped"]
    assert own == [
        ("project", "project", "own"),
        ("broken", "project", None),
        ("notebook", "project", "mine"),
        ("usual", "user", "user"),
    ]
    assert {e.name for e in entries if e.origin == "shipped"} == SHIPPED
    assert [(e.name, e.origin) for e in entries if e.is_shadowed] == [("notebook", "shipped")]
    broken = [e for e in entries if e.error is not None]
    assert [e.name for e in broken] == ["broken"]
    assert broken[0].error is not None
    assert broken[0].error.line == 1


def test_a_typing_error_is_nearer_than_a_part_of_the_word() -> None:
    """Of two names the one that was meant is suggested."""
    assert nearest("memry_limit", ("limit", "memory_limit")) == "memory_limit"
    assert nearest("limit", ("keep_free", "memory_limit")) == "memory_limit"
