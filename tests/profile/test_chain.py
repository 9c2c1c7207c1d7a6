"""``extends``: what overrides what, where errors point, and which chains are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, Amount
from gpuconf.errors import ProfileError, ProfileNotFoundError
from gpuconf.profile import Profile, check_profile, load_profile
from gpuconf.profile.chain import LONGEST_CHAIN
from gpuconf.profile.model import OnShortage


def write(folder: Path, **files: str) -> None:
    """Write ``NAME.yaml`` for each keyword."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


def load(folder: Path, name: str = "child.yaml") -> Profile:
    return load_profile(name, environ={}, directory=folder)


def refusal(folder: Path, name: str = "child.yaml") -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        load(folder, name)
    return caught.value


def test_a_parent_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``extends: ~/lab.yaml``, as in GPUCONF_PROFILE."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    write(tmp_path / "home", lab="gpus: [3]\n")
    write(tmp_path, child="extends: ~/lab.yaml\n")
    assert load(tmp_path).gpus.members == (3,)


def test_deeper_keys_override(tmp_path: Path) -> None:
    """Mappings are merged key by key; scalars and lists are replaced."""
    write(
        tmp_path,
        parent="gpus: [0, 1]\nmemory: {allow_growth: true, keep_free: 1GiB}\n"
        "env: {A: '1', B: '1'}\nvirtual_devices: [1GiB, 1GiB]\ndescription: parent\n",
        child="extends: parent.yaml\ngpus: [2]\nmemory: {keep_free: 2GiB}\n"
        "env: {B: '2', C: '2'}\nvirtual_devices: [3GiB]\n",
    )
    profile = load(tmp_path)
    assert profile.gpus.members == (2,)
    assert profile.memory.allow_growth is True
    assert profile.memory.keep_free == Amount(2 * GIB)
    assert dict(profile.env) == {"A": "1", "B": "2", "C": "2"}
    assert profile.virtual_devices == (Amount(3 * GIB),)
    assert profile.description is None  # the parent's says what the parent is for
    assert (profile.name, profile.source) == ("child", str(tmp_path / "child.yaml"))


def test_null_removes_what_was_inherited(tmp_path: Path) -> None:
    """A key, a section, a variable, one GPU's rules, and the parent's word for a GPU."""
    write(
        tmp_path,
        parent="memory: {keep_free: 1GiB, allow_growth: true}\njax: {preallocate: true}\n"
        "env: {A: '1', B: '1'}\n"
        "per_gpu: {0: {memory: {keep_free: 2GiB}}, 1: {memory: {keep_free: 3GiB}}}\n",
        child="extends: parent.yaml\nmemory: {keep_free: null}\njax: ~\nenv: {A: null}\n"
        "per_gpu: {0: null, 1: {memory: {keep_free: null}}}\n",
    )
    profile = load(tmp_path)
    assert profile.memory.keep_free is None
    assert profile.memory.allow_growth is True
    assert profile.jax.preallocate is None
    assert profile.env == (("B", "1"),)
    assert [gpu for gpu, _ in profile.per_gpu] == [1]
    assert profile.per_gpu[0][1].memory.keep_free is None


def test_a_removed_rule_can_be_set_again(tmp_path: Path) -> None:
    """Null is not a wall: the next profile's rule holds."""
    write(
        tmp_path,
        first="memory: {keep_free: 1GiB, allow_growth: true}\n",
        second="extends: first.yaml\nmemory: null\n",
        child="extends: second.yaml\nmemory: {keep_free: 3GiB}\n",
    )
    memory = load(tmp_path).memory
    assert (memory.keep_free, memory.allow_growth) == (Amount(3 * GIB), None)


def test_a_section_that_is_commented_out_removes_nothing(tmp_path: Path) -> None:
    """``memory:`` with nothing under it is not null: limits must not vanish by a comment."""
    write(
        tmp_path,
        parent="memory: {keep_free: 1GiB}\n",
        child="extends: parent.yaml\nmemory:\n#  keep_free: 2GiB\n",
    )
    assert load(tmp_path).memory.keep_free == Amount(GIB)


def test_words_and_mappings_replace_each_other(tmp_path: Path) -> None:
    """``on_shortage: fail`` over ``{wait: …}``, and the other way round."""
    write(
        tmp_path,
        first="memory: {on_shortage: fail}\n",
        second="extends: first.yaml\nmemory: {on_shortage: {wait: 1min}}\n",
        child="extends: second.yaml\nmemory: {on_shortage: cpu}\n",
    )
    assert load(tmp_path, "second.yaml").memory.on_shortage == OnShortage("wait", 60)
    assert load(tmp_path).memory.on_shortage == OnShortage("cpu")


def test_paths_begin_at_the_extending_file(tmp_path: Path) -> None:
    """Not at the working directory: a folder of profiles can be moved."""
    write(tmp_path / "team" / "base", parent="gpus: none\n")
    write(tmp_path / "team", child="extends: base/parent.yaml\n")
    assert load_profile("team/child.yaml", environ={}, directory=tmp_path).gpus.kind == "none"


def test_a_shipped_profile_can_be_extended_by_name(tmp_path: Path) -> None:
    """The common case; its description is not inherited."""
    write(tmp_path, child="extends: shared-desktop\nmemory: {keep_free: 2GiB}\n")
    profile = load(tmp_path)
    assert profile.memory.per_process_gpu_memory_fraction == 0.7
    assert profile.memory.keep_free == Amount(2 * GIB)
    assert profile.description is None


def test_a_project_may_extend_the_profile_that_it_shadows(tmp_path: Path) -> None:
    """Its own name means the next one further up the search path: project, user, shipped."""
    user = tmp_path / "config"
    write(tmp_path / ".gpuconf", **{"half-card": "extends: half-card\ndescription: mine\n"})
    write(
        user / "gpuconf",
        **{"half-card": "extends: half-card\nmemory: {keep_free: 2GiB}\ndescription: user\n"},
    )
    environ = {"XDG_CONFIG_HOME": str(user)}
    profile = load_profile("half-card", environ=environ, directory=tmp_path)
    assert profile.description == "mine"
    assert profile.memory.keep_free == Amount(2 * GIB)
    assert profile.memory.per_process_gpu_memory_fraction == 0.35


@pytest.mark.parametrize(
    ("parent", "child", "place", "says"),
    [
        # a parent's mistake, also where the child overrides that key
        ("gpus: all\nmemory: {keep_free: 4096}", "{keep_free: 1GiB}",
         "parent.yaml:2:21", ("keep_free", "4096")),
        # a combination: the child is at fault, whichever half it wrote
        ("memory:\n  memory_limit: 2GiB", "{at_least: 3GiB}",
         "child.yaml:2:20", ("at_least", "parent.yaml:2")),
        ("memory: {at_least: 3GiB}", "{memory_limit: 2GiB}",
         "child.yaml:2:24", ("memory_limit", "parent.yaml:1")),
        # and the parent where it wrote both
        ("memory: {memory_limit: 2GiB, at_least: 3GiB}", "{}",
         "parent.yaml:1:40", ("at_least", "2GiB")),
    ],
)  # fmt: skip
def test_where_an_error_points(
    parent: str, child: str, place: str, says: tuple[str, str], tmp_path: Path
) -> None:
    """To the file that wrote it; of two that do not fit together to the extending one.

    Its message names the other's line.
    """
    write(tmp_path, parent=parent, child=f"extends: parent.yaml\nmemory: {child}\n")
    error = refusal(tmp_path)
    assert Path(error.location).resolve() == (tmp_path / place).resolve()
    key, words = says
    assert error.key == f"memory.{key}"
    assert words in error.message


def test_a_child_may_heal_its_parents_combination(tmp_path: Path) -> None:
    """Only what comes out of the merge must fit together."""
    write(
        tmp_path,
        parent="memory: {memory_limit: 2GiB, at_least: 3GiB}\n",
        child="extends: parent.yaml\nmemory: {at_least: null}\n",
    )
    assert load(tmp_path).memory.at_least is None


def test_circles_are_refused(tmp_path: Path) -> None:
    """The error stands at the ``extends`` that closes the circle, and names all of it."""
    write(
        tmp_path,
        child="extends: second.yaml\n",
        second="extends: third.yaml\n",
        third="gpus: all\nextends: child.yaml\n",
    )
    error = refusal(tmp_path)
    assert error.file is not None
    assert error.file.endswith("third.yaml")
    assert (error.line, error.column, error.key) == (2, 10, "extends")
    assert "child → second → third → child.yaml" in error.message


def test_circles_through_names_and_links_are_refused(tmp_path: Path) -> None:
    """The same file by another path is the same file."""
    folder = tmp_path / ".gpuconf"
    write(folder, a="extends: b\n", b="extends: c\n")
    (folder / "c.yaml").symlink_to("a.yaml")
    with pytest.raises(ProfileError, match="circle"):
        load_profile("a", environ={}, directory=tmp_path)


def test_long_chains_are_refused(tmp_path: Path) -> None:
    """Ten are enough; the eleventh is refused at the line that requests it."""
    links = {f"p{i}": f"extends: p{i + 1}.yaml\n" for i in range(LONGEST_CHAIN)}
    write(tmp_path, **links)
    write(tmp_path, **{f"p{LONGEST_CHAIN}": "gpus: all\n"})
    assert load(tmp_path, "p1.yaml").gpus.kind == "all"
    error = refusal(tmp_path, "p0.yaml")
    assert f"more than {LONGEST_CHAIN} profiles" in error.message
    assert str(error.file).endswith(f"p{LONGEST_CHAIN - 1}.yaml")


def test_a_missing_parent_is_the_childs_line(tmp_path: Path) -> None:
    """For paths and names alike, with file and line of the ``extends``."""
    for parent in ("nosuch.yaml", "nosuch"):
        write(tmp_path, child=f"gpus: all\nextends: {parent}\n")
        error = refusal(tmp_path)
        assert isinstance(error, ProfileNotFoundError)
        assert error.location == f"{tmp_path / 'child.yaml'}:2:10"
        assert error.key == "extends"


def test_check_reports_all_of_the_first_broken_file(tmp_path: Path) -> None:
    """A good child of a broken parent gets the parent's errors."""
    write(tmp_path, parent="a: 1\nb: 2\n", child="extends: parent.yaml\n")
    errors = check_profile("child.yaml", environ={}, directory=tmp_path)
    assert [error.key for error in errors] == ["a", "b"]
