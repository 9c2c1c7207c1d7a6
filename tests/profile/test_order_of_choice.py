"""Which profile applies: the order, a parent process's choice, and files of other users."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.basics.state_note import STATE_VARIABLE, StateNote, encode, this_process
from gpuconf.errors import ProfileNotFoundError
from gpuconf.profile import (
    ParentChoice,
    Profile,
    absolute_path,
    choice_of,
    chosen_profile,
    list_profiles,
    load_profile,
)
from gpuconf.profile.folders import may_bound_search
from gpuconf.profile.model import Note
from gpuconf.profile.search import DEFAULT_PROFILE
from tests.profile.other_users import giving_away
from tests.profile.test_search import write


def note_of(choice: ParentChoice) -> dict[str, str]:
    """The note in the environment of a process whose parent chose that profile."""
    return {STATE_VARIABLE: encode(StateNote(this_process(), (), *choice))}


class Machine:
    """A folder for each source of a profile; every source is filled by ``write``."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "scripts" / "deep"
        self.work = folder / "work"
        self.config = folder / "config" / "gpuconf"
        self.environ = {"XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder / "home")}
        for made in (self.script, self.work, self.config):
            made.mkdir(parents=True)
        self.parents = write(folder / "parents.yaml", "parent")
        write(folder / "named.yaml", "variable")
        (folder / "scripts" / ".git").mkdir()

    def load(self, name: str | None = None, **options: object) -> Profile:
        given = {"environ": self.environ, "directory": self.work, "script_folder": self.script}
        return load_profile(name, **{**given, **options})  # type: ignore[arg-type]

    def reason(self) -> tuple[str, str]:
        """What is chosen without a script, and why, as `gpuconf doctor` says it."""
        choice = chosen_profile(environ=self.environ, directory=self.work)
        return choice.profile, choice.because


def test_the_order(tmp_path: Path) -> None:
    """Argument, variable, parent, script's project, working directory's, user's, shared-desktop.

    The reason of each is said in words.
    """
    machine = Machine(tmp_path)
    parent = ParentChoice(str(machine.parents), "path")
    assert machine.load().name == DEFAULT_PROFILE == "shared-desktop"
    assert machine.reason() == (DEFAULT_PROFILE, "nothing else is set")
    own = write(machine.config / "gpuconf.yaml", "user")
    assert machine.reason() == (str(own), "it is your own file")
    assert (machine.load().name, machine.load().description) == ("user", "user")
    file = write(machine.work / "gpuconf.yaml", "work")
    loaded = machine.load()
    assert (loaded.name, loaded.description, loaded.source) == ("project", "work", str(file))
    assert "project" in machine.reason()[1]
    write(machine.script.parent / "gpuconf.yaml", "above the script")
    assert machine.load().description == "above the script"
    write(machine.script / "gpuconf.yaml", "script")
    assert machine.load().description == "script"
    machine.environ |= note_of(parent)
    assert machine.load().description == "parent"
    assert machine.reason() == (str(machine.parents), "the parent process chose it")
    machine.environ["GPUCONF_PROFILE"] = str(tmp_path / "named.yaml")
    assert machine.load().description == "variable"
    assert machine.load("cpu-only").name == "cpu-only"


def test_names_are_looked_up_in_the_same_order(tmp_path: Path) -> None:
    """The script's project hides the working directory's, which hides the user's."""
    machine = Machine(tmp_path)
    for folder in (machine.config, machine.work / ".gpuconf", machine.script / ".gpuconf"):
        write(folder / "lab.yaml", folder.parent.name)
        assert machine.load("lab").description == folder.parent.name
    assert machine.load("lab", script_folder=None).description == "work"


def test_the_users_own_file_is_named_user(tmp_path: Path) -> None:
    """By that name it is found, extended and listed once."""
    machine = Machine(tmp_path)
    write(machine.config / "gpuconf.yaml", "user")
    assert machine.load("user").description == "user"
    child = machine.work / "child.yaml"
    child.write_text("extends: user\n")
    assert machine.load(str(child)).name == "child"
    entries = list_profiles(environ=machine.environ, directory=machine.work)
    assert [e.name for e in entries if e.origin == "user"] == ["user"]


@pytest.mark.parametrize(
    "named", ["gpuconf.yaml", ".gpuconf/lab.yaml", "user", "path", "half-card"]
)
def test_a_child_elsewhere_gets_the_parents_profile(named: str, tmp_path: Path) -> None:
    """What choice_of() gives leads a child in another folder to the same file and origin."""
    machine = Machine(tmp_path)
    if named in ("gpuconf.yaml", ".gpuconf/lab.yaml"):
        write(machine.work / named, "project")
    write(machine.config / "gpuconf.yaml", "user")
    name = {"gpuconf.yaml": None, ".gpuconf/lab.yaml": "lab", "path": str(machine.parents)}
    loaded = machine.load(name.get(named, named))
    choice = choice_of(loaded)
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere / "gpuconf.yaml", "another")
    write(elsewhere / ".gpuconf" / "half-card.yaml", "another")
    child = load_profile(environ=note_of(choice), directory=elsewhere)
    assert child == loaded
    assert (child.origin, choice_of(child)) == (loaded.origin, choice)
    origins = {"gpuconf.yaml": "project", ".gpuconf/lab.yaml": "project", "half-card": "shipped"}
    assert choice.origin == origins.get(named, named)


@pytest.mark.parametrize("origin", ["project", "user", "path"])
def test_a_parents_file_that_is_gone(origin: str, tmp_path: Path) -> None:
    """The error says who chose it, and how to choose another."""
    parent = ParentChoice(str(tmp_path / "gone.yaml"), origin)
    with pytest.raises(ProfileNotFoundError, match="the parent process chose it") as caught:
        load_profile(environ=note_of(parent), directory=tmp_path)
    assert "GPUCONF_PROFILE=NAME" in str(caught.value.hint)


def test_a_parents_shipped_profile_that_this_version_lacks(tmp_path: Path) -> None:
    """A file of that name in the child's folder is not what the parent meant."""
    write(tmp_path / ".gpuconf" / "newer.yaml", "another")
    with pytest.raises(ProfileNotFoundError, match="the parent process chose it"):
        load_profile(environ=note_of(ParentChoice("newer", "shipped")), directory=tmp_path)


def test_a_home_that_is_a_link(tmp_path: Path) -> None:
    """$HOME names the link, getcwd() the real folder: the search still goes up to home."""
    deep = tmp_path / "data" / "u" / "work" / "deep"
    deep.mkdir(parents=True)
    home = tmp_path / "home"
    home.symlink_to(tmp_path / "data" / "u")
    write(tmp_path / "data" / "u" / "gpuconf.yaml", "home")
    environ = {"HOME": str(home)}
    assert load_profile(environ=environ, directory=deep).name == "shared-desktop"
    write(tmp_path / "data" / "u" / "work" / "gpuconf.yaml", "work")
    assert load_profile(environ=environ, directory=deep).description == "work"
    given = home / "work" / "deep"
    assert load_profile(environ=environ, directory=given).description == "work"


def test_home_at_the_root_bounds_nothing(tmp_path: Path) -> None:
    """HOME=/ must not make every folder of the machine a part of the project."""
    deep = tmp_path / "deep"
    deep.mkdir()
    write(tmp_path / "gpuconf.yaml", "above")
    assert load_profile(environ={"HOME": "/"}, directory=deep).name == "shared-desktop"


@pytest.mark.parametrize(
    ("owner", "start_owner", "user", "bounds"),
    [
        (1000, 1000, 1000, True),  # one's own repository
        (0, 1000, 1000, True),  # root may do anything anyway
        (1000, 1000, 0, True),  # a root container with a mounted repository
        (1001, 1000, 1000, False),  # somebody's .git in /tmp, above one's own folder
        (1001, 1000, 0, False),
        (1001, 1001, 1000, True),  # one works in somebody's repository
        (None, None, 1000, False),  # there is no .git
    ],
)
def test_which_git_ends_the_search(
    owner: int | None, start_owner: int | None, user: int, bounds: bool
) -> None:
    """The user's, root's, or that of whoever owns the folder that the search begins in."""
    assert may_bound_search(owner, start_owner=start_owner, user=user) is bounds


@pytest.mark.parametrize("foreign", ["gpuconf.yaml", "."])
def test_another_users_project_applies_with_a_note(
    foreign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root in a container: the mounted project's file applies, and a line says whose it is."""
    write(tmp_path / "gpuconf.yaml", "mounted")
    assert load_profile(environ={}, directory=tmp_path).notes == ()
    giving_away(monkeypatch)(tmp_path / foreign)
    profile = load_profile(environ={}, directory=tmp_path)
    assert profile.description == "mounted"
    (note,) = profile.notes
    assert note.text.startswith(f"{tmp_path / 'gpuconf.yaml'} ")
    assert "belongs to another user (uid " in note.text
    assert note.command == f"gpuconf trust {tmp_path}/gpuconf.yaml"
    assert note.text.endswith(f"then: {note.command}")
    named = load_profile(environ={"GPUCONF_PROFILE": str(tmp_path / "gpuconf.yaml")})
    assert named.notes == ()


def test_a_mounted_repository_is_searched_up_to_its_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it belongs to another user than the root of the container."""
    deep = tmp_path / "src" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    write(tmp_path / "gpuconf.yaml", "mounted")
    give = giving_away(monkeypatch)
    for path in (tmp_path, tmp_path / ".git", tmp_path / "gpuconf.yaml", deep.parent, deep):
        give(path)
    assert load_profile(environ={}, directory=deep).description == "mounted"


def test_how_it_was_reached_makes_no_other_profile(tmp_path: Path) -> None:
    """Origin and notes are not compared: configure() twice with one file is one profile."""
    file = write(tmp_path / "gpuconf.yaml", "same")
    found = load_profile(environ={}, directory=tmp_path)
    named = load_profile(str(file), environ={})._replace(
        name="project", notes=(Note("a note", "ls"),)
    )
    assert (found.origin, named.origin) == ("project", "path")
    assert found == named
    assert (found != named) is False
    assert hash(found) == hash(named)
    assert found == found._replace(name="another", description="words")
    assert found != found._replace(processes=2)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("lab", None),
        ("", None),
        (" lab ", None),
        ("./lab.yaml", "/work/lab.yaml"),
        ("lab.yaml", "/work/lab.yaml"),
        ("../lab.yml", "/lab.yml"),
        ("~/lab.yaml", "/home/u/lab.yaml"),
        (" /x/lab.yaml ", "/x/lab.yaml"),
    ],
)
def test_absolute_path(named: str, expected: str | None) -> None:
    """GPUCONF_PROFILE for children: a path keeps its meaning in another folder, a name is one."""
    assert absolute_path(named, "/work", environ={"HOME": "/home/u"}) == expected


@pytest.mark.parametrize("given", [3, ["x"], True])
def test_neither_name_nor_path(given: object) -> None:
    """What Python's own functions say of such a path."""
    with pytest.raises(TypeError, match=f"not {type(given).__name__}"):
        load_profile(given, environ={})  # type: ignore[arg-type]
