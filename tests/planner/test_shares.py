"""A scheduler's share that is too small says what to ask the scheduler for."""

from __future__ import annotations

import pytest

from gpuconf.basics.units import GIB
from gpuconf.errors import ShortageError
from gpuconf.machine.cards.inventory import Gpu, GpuShare, Inventory
from gpuconf.planner.planning import make_plan
from gpuconf.profile import load_profile
from gpuconf.profile.model import Profile


def shared(scheduler: str, part: float, outside_gib: int = 1) -> Inventory:
    """A GPU of 8 GiB of which a task has ``part``, and others hold ``outside_gib``."""
    free = (8 - outside_gib) * GIB
    card = Gpu(0, "GPU-1", "card", total_bytes=8 * GIB, free_bytes=free, processes=())
    return Inventory((card._replace(share=GpuShare(scheduler, part, "", outside_gib * GIB)),))


def profile() -> Profile:
    """A context of 640 MiB, 512 MiB kept free."""
    return load_profile("shared-desktop", overrides={"memory": {"context": "640MiB"}}, environ={})


@pytest.mark.parametrize(
    ("scheduler", "ask"),
    [
        ("Ray", "num_gpus=0.1"),
        ("Slurm", "--gres=shard:N for 0.1 of the GPU"),
    ],
)
def test_a_share_below_a_context_says_what_to_ask_for(scheduler: str, ask: str) -> None:
    """And what it says is enough: 0.1 × (8192 - 1024 - 512) - 640 = 25 MiB."""
    with pytest.raises(ShortageError) as caught:
        make_plan(profile(), shared(scheduler, 0.05), environ={})
    text = str(caught.value)
    assert "0.05 × (8192 MiB total - 1024 MiB used by others - 512 MiB keep_free)" in text
    assert f"{scheduler}'s share is smaller than a CUDA context; request at least {ask}" in text
    assert "at_least: null" not in text
    (enough,) = make_plan(profile(), shared(scheduler, 0.1), environ={}).gpus
    assert enough.limit_bytes == 25 * 1024**2


def test_a_card_that_others_fill_is_not_the_shares_fault() -> None:
    """No share of what is left would do, so none is proposed."""
    with pytest.raises(ShortageError) as caught:
        make_plan(profile(), shared("Ray", 0.5, outside_gib=7), environ={})
    assert "num_gpus" not in str(caught.value)
    assert "`gpuconf ps`" in str(caught.value)
