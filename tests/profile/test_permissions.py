"""What a file may set by how it was reached: shipped, named, found, and found but trusted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuconf.basics.state_note import STATE_VARIABLE, StateNote, encode, this_process
from gpuconf.errors import ProfileError
from gpuconf.profile import Profile, load_profile, refused_if_found, trust
from gpuconf.profile.permissions import harmless_variables
from tests.profile.other_users import giving_away

# Each of them makes some program load code, run a command, write a file or contact a server.
HOSTILE = (
    *("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "BASH_ENV", "CUDA_INJECTION64_PATH", "XLA_FLAGS"),
    *("OPENSSL_CONF", "GIT_SSH_COMMAND", "HTTPS_PROXY", "https_proxy", "TF_XLA_FLAGS"),
    *("KERAS_HOME", "KERAS_BACKEND", "TF_BFC_MEMORY_DUMP", "CUDA_CACHE_PATH", "NCCL_NET_PLUGIN"),
    *("NCCL_DEBUG_FILE", "HF_ENDPOINT", "WANDB_BASE_URL", "TORCH_LOGS", "JAX_PLATFORMS", "EDITOR"),
    *("tf_cpp_min_log_level", "MY_OWN_SETTING"),
)
HARMLESS = ("TF_CPP_MIN_LOG_LEVEL", "OMP_NUM_THREADS", "TF_DETERMINISTIC_OPS", "NCCL_P2P_DISABLE")


def setting(variable: str) -> str:
    return f"memory: {{keep_free: 1GiB}}\nenv:\n  {variable}: ./x\n"


def found(folder: Path, **environ: str) -> Profile:
    return load_profile(environ={"XDG_STATE_HOME": str(folder / "state"), **environ},
                        directory=folder)  # fmt: skip


def trusted(file: Path, folder: Path) -> None:
    trust.record(str(file), file.read_bytes(), {"XDG_STATE_HOME": str(folder / "state")})


@pytest.mark.parametrize("variable", HOSTILE)
def test_a_hostile_folder(variable: str, tmp_path: Path) -> None:
    """Refused where it is found, accepted where it is named or trusted, refused after a change."""
    file = tmp_path / "gpuconf.yaml"
    file.write_text(setting(variable))
    with pytest.raises(ProfileError, match=f"env.{variable}: .*was found in a project") as caught:
        found(tmp_path)
    error = caught.value
    assert (error.file, error.line, error.column) == (str(file), 3, 3)
    assert f"`GPUCONF_PROFILE={file} python …`" in str(error.hint)
    assert error.command == f"gpuconf trust {file}"
    assert str(error.hint).endswith(error.command)
    assert found(tmp_path, GPUCONF_PROFILE=str(file)).env == ((variable, "./x"),)
    assert load_profile(file, environ={}).env == ((variable, "./x"),)
    trusted(file, tmp_path)
    assert found(tmp_path).env == ((variable, "./x"),)
    file.write_text(setting(variable).replace("./x", "./y"))
    with pytest.raises(ProfileError, match="was trusted, but has changed since"):
        found(tmp_path)


@pytest.mark.parametrize("variable", HARMLESS)
def test_harmless_variables(variable: str, tmp_path: Path) -> None:
    """Log levels, threads and the like need no trust."""
    (tmp_path / "gpuconf.yaml").write_text(setting(variable))
    assert found(tmp_path).env == ((variable, "./x"),)


def test_nothing_on_the_list_names_a_place() -> None:
    """A name that says path, file, folder, server or flags does not belong there."""
    words = "PATH|DIR|FILE|HOME|FLAGS|PROXY|PLUGIN|LIBRARY|PRELOAD|DUMP|CONF$|COMMAND|ENDPOINT|URL"
    bad = [name for name in harmless_variables() if re.search(words, name.upper())]
    assert bad == []


def test_the_other_keys_and_null_need_no_trust(tmp_path: Path) -> None:
    """Limits are what a project's file is for; null sets nothing."""
    (tmp_path / "gpuconf.yaml").write_text(
        "description: x\nextends: notebook\ngpus: [0]\nmemory: {memory_limit: 1GiB}\n"
        "virtual_devices: [50%]\nper_gpu: {0: {memory: {keep_free: 1GiB}}}\n"
        "tensorflow: {allocator: bfc}\njax: {preallocate: false}\n"
        "torch: {expandable_segments: true}\nenv: {XLA_FLAGS: null}\n"
    )
    assert found(tmp_path).env == (("TF_CPP_MIN_LOG_LEVEL", "1"),)


def test_a_name_from_the_project_is_found(tmp_path: Path) -> None:
    """GPUCONF_PROFILE=lab says nothing of whose lab.yaml it is."""
    (tmp_path / ".gpuconf").mkdir()
    (tmp_path / ".gpuconf" / "lab.yaml").write_text(setting("XLA_FLAGS"))
    with pytest.raises(ProfileError, match=r"lab\.yaml:3:3: env\.XLA_FLAGS"):
        found(tmp_path, GPUCONF_PROFILE="lab")


def test_a_link_is_found_whatever_it_leads_to(tmp_path: Path) -> None:
    """Also to a file that is trusted at its own place: relative values would mean other files."""
    (tmp_path / "mine").mkdir()
    target = tmp_path / "mine" / "gpuconf.yaml"
    target.write_text(setting("XLA_FLAGS"))
    trusted(target, tmp_path)
    (tmp_path / "gpuconf.yaml").symlink_to(target)
    with pytest.raises(ProfileError, match="was found in a project"):
        found(tmp_path)


@pytest.mark.parametrize("extends", ["./other.yaml", "../outside.yaml", "lab", "mine"])
def test_what_a_found_file_extends(extends: str, tmp_path: Path) -> None:
    """The lowest trust on the way holds: by a path, outside, in .gpuconf, and in the user's."""
    project = tmp_path / "project"
    config = tmp_path / "config" / "gpuconf"
    for folder in (project / ".gpuconf", config):
        folder.mkdir(parents=True)
    files = {
        "./other.yaml": project / "other.yaml",
        "../outside.yaml": tmp_path / "outside.yaml",
        "lab": project / ".gpuconf" / "lab.yaml",
        "mine": config / "mine.yaml",
    }
    files[extends].write_text(setting("BASH_ENV"))
    child = project / "gpuconf.yaml"
    child.write_text(f"extends: {extends}\n")
    environ = {"XDG_CONFIG_HOME": str(config.parent), "XDG_STATE_HOME": str(tmp_path / "state")}
    with pytest.raises(ProfileError, match="reached from a file that was found") as caught:
        load_profile(environ=environ, directory=project)
    assert caught.value.line == 3
    may_be_named = extends != "lab"  # which is found also from a named file
    assert ("GPUCONF_PROFILE=" in str(caught.value.hint)) is may_be_named
    if may_be_named:
        named = load_profile(str(child), environ=environ, directory=project)
        assert named.env == (("BASH_ENV", "./x"),)
    for file in (child, files[extends]):  # one alone is not enough
        with pytest.raises(ProfileError):
            load_profile(environ=environ, directory=project)
        trusted(file, tmp_path)
    assert load_profile(environ=environ, directory=project).env == (("BASH_ENV", "./x"),)


def test_the_users_own_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless somebody else owns what it holds, or what that links to."""
    config = tmp_path / "config" / "gpuconf"
    team = tmp_path / "team"
    project = tmp_path / "project"
    for folder in (config, team, project):
        folder.mkdir(parents=True)
    (team / "shared.yaml").write_text(setting("XLA_FLAGS"))
    (config / "gpuconf.yaml").symlink_to(team / "shared.yaml")
    environ = {"XDG_CONFIG_HOME": str(config.parent)}
    assert load_profile(environ=environ, directory=project).env == (("XLA_FLAGS", "./x"),)
    giving_away(monkeypatch)(team)
    with pytest.raises(ProfileError, match="can be written by another user"):
        load_profile(environ=environ, directory=project)


def test_overrides_in_code_are_named(tmp_path: Path) -> None:
    """They stand in the user's own program."""
    (tmp_path / "gpuconf.yaml").write_text("gpus: all\n")
    overrides = {"env": {"XLA_FLAGS": "--x"}}
    profile = load_profile(overrides=overrides, environ={}, directory=tmp_path)
    assert profile.env == (("XLA_FLAGS", "--x"),)


def test_a_childs_project_file_stays_found(tmp_path: Path) -> None:
    """The parent's note does not make a name of what was found."""
    file = tmp_path / "gpuconf.yaml"
    file.write_text(setting("XLA_FLAGS"))
    for origin, is_refused in (("project", True), ("unknown", True), ("path", False)):
        note = StateNote(this_process(), (), str(file), origin)
        environ = {STATE_VARIABLE: encode(note)}
        if is_refused:
            with pytest.raises(ProfileError, match="was found"):
                load_profile(environ=environ, directory="/")
        else:
            assert load_profile(environ=environ, directory="/").env


@pytest.mark.parametrize(
    ("name", "is_found"),
    [("gpuconf.yaml", True), ("gpuconf.yml", True), (".gpuconf/a.yaml", True), ("a.yaml", False)],
)
def test_refused_if_found(name: str, is_found: bool, tmp_path: Path) -> None:
    """`gpuconf profiles check` reports it for files that the search can meet."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(setting("XLA_FLAGS"))
    errors = refused_if_found(name, environ={}, directory=tmp_path)
    assert [error.key for error in errors] == (["env.XLA_FLAGS"] if is_found else [])
