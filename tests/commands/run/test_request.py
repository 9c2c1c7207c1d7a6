"""What the options of `gpuconf run` come to: a profile, its changes, the number of processes."""

from __future__ import annotations

import argparse

import pytest

from gpuconf.basics.units import GIB, MIB, Amount
from gpuconf.commands.run.request import Request, add_arguments, request_of
from gpuconf.errors import ProfileError, UsageError
from gpuconf.profile.model import OnShortage


def asked(*words: str) -> Request:
    """The request of these words."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return request_of(parser.parse_args(words))


def test_nothing_asked_is_the_default() -> None:
    """Only then may a run start inside another one."""
    assert asked() == Request()
    assert asked().is_default
    assert not asked("--processes", "2").is_default
    assert not asked("--profile", "half-card").is_default


def test_changes_are_the_profiles_own_keys_with_values_of_yaml() -> None:
    """Sizes, lists, null, nested keys and env; the last of two holds."""
    profile = asked(
        *("--profile", "shared-desktop", "--processes", "3", "--wait", "10min"),
        *("--set", "memory.memory_limit=4GiB", "--set", "memory.memory_limit=2GiB"),
        *("--set", "gpus=[0]", "--set", "memory.keep_free=null", "--set", "env.A_FLAG=1"),
        *("--set", "tensorflow.session=none"),
    ).load()
    assert profile.memory.memory_limit == Amount(2 * GIB)
    assert profile.memory.keep_free is None
    assert profile.memory.on_shortage == OnShortage("wait", 600)
    assert profile.gpus.members == (0,)
    assert ("A_FLAG", "1") in profile.env
    assert profile.tensorflow.session == "none"
    assert profile.processes == 3
    assert profile.memory.at_least == Amount(1024 * MIB)  # the profile's own keys stay


@pytest.mark.parametrize("time", ["python", "0", "0s", "-1min"])
def test_what_follows_wait_must_be_a_time(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command's first word is not taken for one."""
    with pytest.raises(SystemExit):
        asked(f"--wait={time}")
    assert "put -- behind --wait" in capsys.readouterr().err


def test_a_time_has_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    """A bare number could be seconds or minutes."""
    with pytest.raises(SystemExit):
        asked("--wait=3")
    assert "did you mean 3s or 3min?" in capsys.readouterr().err


def test_wait_without_a_time_has_no_end() -> None:
    """`--wait` alone waits as long as it takes."""
    memory = asked("--profile", "shared-desktop", "--wait").load().memory
    assert memory.on_shortage == OnShortage("wait", float("inf"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("memory.memory_limit", "a key, =, and a value"),
        ("=4GiB", "a key, =, and a value"),
        ("memory.=4GiB", "a key, =, and a value"),
        ("gpus=[0", "not YAML"),
    ],
)
def test_a_change_that_cannot_be_read(change: str, says: str) -> None:
    """It names the option and shows one that would do."""
    with pytest.raises(UsageError, match=says) as refused:
        asked("--set", change)
    assert change in refused.value.message
    assert "--set" in (refused.value.hint or "")


def test_changes_of_one_section_add_up() -> None:
    """A mapping changes its own keys, and keeps what an earlier --set has put next to them."""
    words = ["--set", "memory.memory_limit=1GiB", "--set", "memory={keep_free: 2GiB}"]
    memory = asked("--profile", "shared-desktop", *words).load().memory
    assert (str(memory.memory_limit), str(memory.keep_free)) == ("1GiB", "2GiB")


def test_a_change_is_read_as_a_file_is() -> None:
    """The key decides what a value is, and not what YAML would guess."""
    words = ["--set", "slurm.shards_per_gpu=010", "--set", "description=2026-11-22"]
    words += ["--set", "gpus=[0, GPU-1e4]", "--set", "memory.on_shortage={wait: 1:30}"]
    with pytest.raises(ProfileError, match='found "1:30"'):
        asked("--profile", "shared-desktop", *words).load()
    profile = asked("--profile", "shared-desktop", *words[:6]).load()
    assert profile.slurm.shards_per_gpu == 10
    assert profile.description == "2026-11-22"
    assert profile.gpus.members == (0, "GPU-1e4")


@pytest.mark.parametrize("change", ["memory.memory_limits=4GiB", "memory=4GiB", "nothing.at=1"])
def test_a_change_that_no_profile_has(change: str) -> None:
    """The profile's own rules judge it."""
    with pytest.raises(ProfileError):
        asked("--profile", "shared-desktop", "--set", change).load()
