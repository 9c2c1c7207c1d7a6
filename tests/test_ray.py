"""`gpuconf.ray` without a Ray: its runtime_env, what it refuses, and addresses where none listens.

Ray itself tries such an address for many minutes.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import gpuconf.ray
from gpuconf.errors import GpuconfError, ProfileError, ProfileNotFoundError, UsageError
from gpuconf.holdings.scheduler_names import NotAskedError, ray_names
from gpuconf.nodes.over_ray import ask_nodes
from gpuconf.ray_address import silence_of

HOOK = "worker_process_setup_hook"
OURS = {HOOK: "gpuconf.ray.setup"}


def test_the_hook_alone() -> None:
    """Nothing else is set where nothing else is asked for."""
    assert gpuconf.ray.runtime_env() == OURS
    assert gpuconf.ray.runtime_env(base=OURS) == OURS


def test_what_is_there_stays() -> None:
    """The base is not changed; its variables and its hook are kept."""
    base = {"pip": ["x"], "env_vars": {"MINE": "1"}, HOOK: "mine.hook"}
    made = gpuconf.ray.runtime_env("half-card", base=base)
    assert made.pop("env_vars") == {
        "MINE": "1",
        "GPUCONF_PROFILE": "half-card",
        "GPUCONF_RAY_ALSO": "mine.hook",
    }
    assert made == {"pip": ["x"], **OURS}
    assert base == {"pip": ["x"], "env_vars": {"MINE": "1"}, HOOK: "mine.hook"}


def test_a_runtime_env_made_of_one_that_we_made() -> None:
    """The user's hook, by name or as a function, is still called, and the first profile stays."""
    named = gpuconf.ray.runtime_env("half-card", base={HOOK: "mine.hook"})
    assert gpuconf.ray.runtime_env(base=named) == named
    called = []
    first = gpuconf.ray.runtime_env(base={HOOK: lambda: called.append("mine")})
    hook = gpuconf.ray.runtime_env(base=first)[HOOK]
    assert callable(hook)
    hook()
    assert called == ["mine"]


def test_check_is_silent_outside_ray() -> None:
    """A program that also runs without Ray may call it."""
    gpuconf.ray.check()
    assert gpuconf.ray.checked(lambda: 7)() == 7


def test_a_path_that_only_the_nodes_have() -> None:
    """A file that is not on this machine is theirs to read."""
    made = gpuconf.ray.runtime_env("/shared/of/the/nodes.yaml")
    assert made["env_vars"] == {"GPUCONF_PROFILE": "/shared/of/the/nodes.yaml"}


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ({"env_vars": ["A=1"]}, "env_vars is of type list"),
        ({"env_vars": {"A": 1}}, "env_vars has 'A': 1"),
        ({HOOK: "no_module"}, "worker_process_setup_hook is 'no_module'"),
        ({HOOK: 3}, "worker_process_setup_hook is 3"),
    ],
)
def test_a_base_that_ray_would_refuse(base: dict[str, object], words: str) -> None:
    """It is an error with what to write."""
    with pytest.raises(UsageError, match=words) as caught:
        gpuconf.ray.runtime_env(base=base)
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    ("name", "kind"), [("bad.yaml", ProfileError), ("half-crad", ProfileNotFoundError)]
)
def test_a_bad_profile_is_an_error_before_ray_starts_a_worker(
    name: str, kind: type[GpuconfError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker would be started again and again, and its end be all that Ray says."""
    (tmp_path / "bad.yaml").write_text("memory: {fracton: 0.4}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind):
        gpuconf.ray.runtime_env(name)


@pytest.fixture
def silent() -> str:
    """A port of this machine that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("form", ["{}", "ray://{}", "http://{}/"])
def test_what_listens_and_what_does_not(form: str, silent: str) -> None:
    """In each form that Ray takes."""
    assert silence_of(form.format(silent)) == "Connection refused"
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert silence_of(form.format(f"127.0.0.1:{server.getsockname()[1]}")) is None


@pytest.mark.parametrize("address", ["", "auto", "local", "head", "head:", ":6379", "head:port"])
def test_what_is_no_address_is_for_ray_to_judge(address: str) -> None:
    """It may know more kinds."""
    assert silence_of(address) is None


@pytest.mark.parametrize("address", ["127.0.0.1:99999", "a..b:6379", "no-such-host.invalid:6379"])
def test_what_cannot_be_an_address_is_silent(address: str) -> None:
    """With a reason, and never a traceback."""
    assert silence_of(address)


def test_the_commands_say_so_before_they_ask_ray(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gpuconf ps --ray` and `gpuconf ray doctor`, by RAY_ADDRESS and by --address."""
    monkeypatch.setenv("RAY_ADDRESS", silent)
    with pytest.raises(NotAskedError, match=f"Ray cannot be asked at {silent}: Connection refused"):
        ray_names({})
    for address in ("auto", silent):
        with pytest.raises(GpuconfError, match=f"no Ray cluster answers at {silent}: Connection"):
            ask_nodes(address, [], 1, print)
