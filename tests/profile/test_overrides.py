"""Values given in code: the same schema, and errors that say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import GIB, Amount
from gpuconf.errors import ProfileError
from gpuconf.profile import Profile, load_profile


def load(overrides: dict[str, Any], name: str = "shared-desktop") -> Profile:
    return load_profile(name, overrides=overrides, environ={}, directory="/")


def test_overrides_go_before_the_file() -> None:
    """Key by key, and None removes a rule."""
    profile = load(
        {
            "memory": {"memory_limit": "4GiB", "keep_free": None, "allow_growth": False},
            "gpus": [0, "GPU-8f6c"],
            "virtual_devices": ("50%", Amount(GIB)),
            "env": {"A": 1, "B": "on", "C": 1.5},
            "per_gpu": {0: {"memory": {"per_process_gpu_memory_fraction": 0.5}}},
        }
    )
    assert profile.memory.memory_limit == Amount(4 * GIB)
    assert profile.memory.keep_free is None
    assert profile.memory.allow_growth is False
    assert profile.memory.per_process_gpu_memory_fraction == 0.7
    assert profile.gpus.members == (0, "GPU-8f6c")
    assert profile.virtual_devices == (Amount(share=0.5), Amount(GIB))
    assert profile.env == (("A", "1"), ("B", "on"), ("C", "1.5"))
    assert profile.per_gpu[0][1].memory.per_process_gpu_memory_fraction == 0.5


def test_no_overrides_are_the_file() -> None:
    """None and {} change nothing."""
    assert load({}) == load_profile("shared-desktop", environ={}, directory="/")


@pytest.mark.parametrize(
    ("overrides", "says", "hint"),
    [
        (
            {"memory": {"memory_limit": 4096}},
            "memory_limit: expected a number and a unit",
            "4096MiB",
        ),
        ({"memory": {"memory_limit": 10**5000}}, "override memory.memory_limit", "6GiB"),
        ({"memory": {"memory_limit": float("nan")}}, 'found "nan"', "6GiB"),
        ({"memory": {"per_process_gpu_memory_fraction": float("inf")}}, '"inf"', "0.7"),
        ({"memory": {"per_process_gpu_memory_fraction": "0.7"}}, "in quotes", "0.7"),
        ({"memory": {"allow_growth": 1}}, "true or false", "allow_growth: true"),
        ({"memory": {"allow_growth": "yes"}}, "in quotes", "allow_growth: true"),
        ({"memory": "4GiB"}, "override memory: expected a mapping", "allow_growth"),
        ({"memry": {}}, "override memry: unknown key", "`memory`"),
        ({"memory.memory_limit": "4GiB"}, "unknown key", '{"memory": {"memory_limit": …}}'),
        ({"extends": "dedicated"}, "override extends: cannot", "load_profile"),
        ({"gpus": {1, 2}}, "type set", "a list, or a dict"),
        ({"gpus": True}, "override gpus", "gpus: [0]"),
        ({"env": {"A": True}}, "override env.A: found True", '"1" or "true"'),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "gpuconf computes", "`gpus`"),
        ({3.5: 1}, "float as a key", "write text"),
        ({True: 1}, "bool as a key", "write text"),
        ({"memory": b"x"}, "type bytes", "use text"),
        ({"memory": {"at_least": "9GiB", "memory_limit": "1GiB"}}, "allows at most 1GiB", "1GiB"),
        ({"tensorflow": {"allocator": "cuda_malloc_async"}}, "override tensorflow.alloc", "bfc"),
    ],
)
def test_wrong_overrides(overrides: dict[str, Any], says: str, hint: str) -> None:
    """One ProfileError without file, which names the override and what to write."""
    with pytest.raises(ProfileError) as caught:
        load(overrides)
    error = caught.value
    assert says in error.message
    assert error.message.startswith("override ")
    assert hint in str(error.hint)
    assert (error.file, error.line, error.column) == (None, None, None)


def test_an_override_that_contains_itself_is_refused() -> None:
    """No RecursionError."""
    endless: dict[str, Any] = {}
    endless["memory"] = endless
    with pytest.raises(ProfileError, match="nested too deeply"):
        load(endless)


def test_a_combination_of_both_blames_the_override(tmp_path: Path) -> None:
    """The file alone is good, so the override is at fault; the file's line is named."""
    file = tmp_path / "good.yaml"
    file.write_text("memory:\n  memory_limit: 2GiB\n")
    with pytest.raises(ProfileError) as caught:
        load_profile(file, overrides={"memory": {"at_least": "3GiB"}}, environ={})
    assert caught.value.file is None
    assert caught.value.message.startswith("override memory.at_least: ")
    assert f"{file}:2" in caught.value.message


def test_an_override_may_not_hide_a_broken_file(tmp_path: Path) -> None:
    """The file's mistake is told even where the override replaces that key."""
    file = tmp_path / "bad.yaml"
    file.write_text("gpus: 0\n")
    with pytest.raises(ProfileError, match=r"bad\.yaml:1:7"):
        load_profile(file, overrides={"gpus": "all"}, environ={})
