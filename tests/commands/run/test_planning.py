"""The line in which `gpuconf run` says what it has decided."""

from __future__ import annotations

import pytest

from gpuconf.commands.run.planning import decision
from gpuconf.machine.cards.inventory import Gpu, Inventory
from gpuconf.planner.planning import make_plan
from gpuconf.profile import load_profile
from tests.planner.cards import PROBLEM, card

TWO = (card(0), card(1))
LEASED = "reserved including the CUDA context"
CUT = (
    f"; 5017 MiB {LEASED} (memory_limit 6GiB is more than its other rules allow: see gpuconf plan)"
)


@pytest.mark.parametrize(
    ("overrides", "gpus", "says"),
    [
        ({"gpus": "none"}, TWO, "no GPU (profile notebook)"),
        ({}, TWO[:1], f"limit 4505 MiB on GPU 0 (profile notebook); 5017 MiB {LEASED}"),
        (
            {},
            TWO,
            "limit 4505 MiB on GPU 0, limit 4505 MiB on GPU 1 (profile notebook); "
            f"10034 MiB {LEASED}",
        ),
        (
            {"memory_limit": "4GiB", "context": "500MiB"},
            TWO[:1],
            f"limit 4096 MiB on GPU 0 (profile notebook); 4596 MiB {LEASED}",
        ),
        (
            {"reserve": "1GiB"},
            TWO[:1],
            f"limit 4505 MiB on GPU 0 (profile notebook); 1536 MiB {LEASED}",
        ),
        ({"memory_limit": "6GiB"}, TWO[:1], f"limit 4505 MiB on GPU 0 (profile notebook){CUT}"),
        (
            {"per_process_gpu_memory_fraction": None, "keep_free": None, "lease": False},
            TWO[:1],
            "no limit on GPU 0 (profile notebook)",
        ),
    ],
)
def test_the_decision(overrides: dict[str, object], gpus: tuple[Gpu, ...], says: str) -> None:
    """Each GPU's limit, what is reserved, and a memory_limit that could not be given."""
    given = overrides if "gpus" in overrides else {"memory": {"reserve": None, **overrides}}
    profile = load_profile("notebook", overrides=given, environ={})
    plan = make_plan(profile, Inventory(gpus), environ={})
    assert decision(plan, "train.py") == f"train.py: {says}"


def test_the_decision_for_several_processes() -> None:
    """The limit is each one's, and what is reserved is for all."""
    profile = load_profile(
        "notebook", overrides={"memory": {"context": "500MiB", "reserve": None}}, environ={}
    )
    plan = make_plan(profile._replace(processes=2), Inventory(TWO[:1]), environ={})
    assert decision(plan, "train.py") == (
        "train.py: limit 3903 MiB for each of 2 processes on GPU 0 (profile notebook); "
        f"8806 MiB {LEASED}"
    )
    assert "reserved" not in decision(plan, "train.py", is_leased=False)


def test_the_decision_without_a_driver() -> None:
    """A size or a fraction limits whatever GPU there is; without both, that is a warning."""
    nothing = Inventory(problem=PROBLEM)
    sized = load_profile("notebook", overrides={"memory": {"memory_limit": "2GiB"}}, environ={})
    plain = load_profile("notebook", environ={})
    free = plain._replace(memory=plain.memory._replace(per_process_gpu_memory_fraction=None))
    profiles = (sized, plain, free)
    said = [decision(make_plan(each, nothing, environ={}), "a.py") for each in profiles]
    assert said == [
        "a.py: limit 2048 MiB on each GPU (profile notebook)",
        "a.py: limit 0.4 of the total on each GPU (profile notebook)",
        "warning: a.py has no GPU memory limit (profile notebook)",
    ]
