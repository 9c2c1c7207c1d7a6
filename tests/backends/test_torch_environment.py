"""A plan as the variable of PyTorch's allocator: pure, torch itself is not needed."""

from __future__ import annotations

import pytest

from gpuconf.backends.torch.environment import wishes
from gpuconf.environ import settle
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


def test_an_option_of_the_users_own_stays() -> None:
    """The same one is no conflict; another one stays as it is, and is told."""
    equal = {OLD: f"{ON},max_split_size_mb:128"}
    assert decide(True, equal) == (equal, [])
    other = {OLD: f"max_split_size_mb:128, {OFF}"}
    assert decide(True, other) == ({}, [OLD])
