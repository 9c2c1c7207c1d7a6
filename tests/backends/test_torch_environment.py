"""A plan as the variable of PyTorch's allocator: pure, torch itself is not needed."""

from __future__ import annotations

import pytest

from gpuconf.backends.torch.environment import wishes
from gpuconf.basics.environment import settle
from gpuconf.basics.units import MIB
from gpuconf.profile.model import Profile, TorchRules

OLD, NEW = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
ON, OFF = "expandable_segments:True", "expandable_segments:False"


def decide(wanted: bool | None, baseline: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables that would be set, and what is said of those that stay."""
    profile = Profile("any", torch=TorchRules(wanted))
    changes, fates = settle(wishes(profile, baseline), baseline)
    return changes, [fate.name for fate in fates if fate.why_not]


@pytest.mark.parametrize(
    ("wanted", "baseline", "changes"),
    [
        (None, {}, {}),
        (None, {OLD: "max_split_size_mb:128"}, {}),
        (True, {}, {OLD: ON}),
        (False, {}, {OLD: OFF}),
        (True, {OLD: ""}, {OLD: ON}),
        (True, {OLD: "max_split_size_mb:128"}, {OLD: f"max_split_size_mb:128,{ON}"}),
        (True, {OLD: " max_split_size_mb:128 , "}, {OLD: f"max_split_size_mb:128,{ON}"}),
        # Which of the two rules differs between releases of torch: what the user has is kept.
        (True, {NEW: "max_split_size_mb:128"}, {NEW: f"max_split_size_mb:128,{ON}"}),
        (True, {OLD: "backend:native", NEW: ""}, {OLD: f"backend:native,{ON}"}),
        (True, {OLD: "a:1", NEW: "b:2"}, {OLD: f"a:1,{ON}", NEW: f"b:2,{ON}"}),
    ],
)
def test_the_option_is_merged_into_the_users(
    wanted: bool | None, baseline: dict[str, str], changes: dict[str, str]
) -> None:
    """The user's other options stay, in the variable that the user chose; nothing to tell."""
    assert decide(wanted, baseline) == (changes, [])


def test_all_keys_are_options() -> None:
    """In one variable, a size in whole MiB; what the user has within brackets stays whole."""
    rules = TorchRules(False, 0.8, 128 * MIB + 5)
    theirs = {OLD: "roundup_power2_divisions:[256:1,>:4]"}
    changes, fates = settle(wishes(Profile("any", torch=rules), theirs), theirs)
    ours = f"{OFF},garbage_collection_threshold:0.8,max_split_size_mb:128"
    assert changes == {OLD: f"{theirs[OLD]},{ours}"}
    assert [fate.status for fate in fates] == ["ok"]


def test_one_of_the_users_own_leaves_room_for_the_others() -> None:
    """Theirs stays and is said; the profile's other options are added."""
    theirs = {OLD: "garbage_collection_threshold:0.5"}
    profile = Profile("any", torch=TorchRules(True, 0.8))
    changes, fates = settle(wishes(profile, theirs), theirs)
    assert changes == {OLD: f"{theirs[OLD]},{ON}"}
    assert "requested garbage_collection_threshold:0.8, got " in str(fates[-1])


def test_an_option_of_the_users_own_stays() -> None:
    """The same one is not a conflict; another one stays as it is, and is told."""
    equal = {OLD: f"{ON},max_split_size_mb:128"}
    assert decide(True, equal) == (equal, [])
    other = {OLD: f"max_split_size_mb:128,{OFF}"}
    assert decide(True, other) == (other, [OLD])
