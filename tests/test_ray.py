"""`gpuconf.ray` without a Ray: what its runtime_env holds, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuconf.ray
from gpuconf.errors import GpuconfError, ProfileError, ProfileNotFoundError, UsageError

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
