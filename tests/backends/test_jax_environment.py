"""A plan as the variables that JAX reads: pure, JAX itself is not needed."""

from __future__ import annotations

import pytest

from gpuconf.backends.jax import wishes
from gpuconf.environ import settle
from gpuconf.hardware.inventory import Gpu
from gpuconf.planner import GpuPlan, Plan
from gpuconf.profile.model import JaxRules, MemoryRules, Profile
from gpuconf.units import GIB, MIB

PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
OLD, NEW = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"


def planned(
    *limits_mib: int | None, total: int | None = 10 * GIB, growth: bool | None = None
) -> Plan:
    """A plan for GPUs of 10 GiB with these limits."""
    gpus = tuple(
        GpuPlan(Gpu(i, total_bytes=total), None if limit is None else limit * MIB, growth)
        for i, limit in enumerate(limits_mib)
    )
    return Plan(Profile("any", memory=MemoryRules(allow_growth=growth)), gpus)


def variables(plan: Plan, baseline: dict[str, str] | None = None) -> dict[str, str]:
    """The variables that would be set over ``baseline``."""
    return settle(wishes(plan, baseline or {}), baseline or {})[0]


@pytest.mark.parametrize(
    ("growth", "own", "expected"),
    [
        (None, None, {}),
        (True, None, {PREALLOCATE: "false"}),
        (False, None, {PREALLOCATE: "true"}),
        (True, True, {PREALLOCATE: "true"}),
        (None, False, {PREALLOCATE: "false"}),
    ],
)
def test_preallocation(growth: bool | None, own: bool | None, expected: dict[str, str]) -> None:
    """JAX preallocates unless memory is to grow; its own key in the profile rules over that."""
    plan = planned(None, growth=growth)
    plan = plan._replace(profile=plan.profile._replace(jax=JaxRules(own)))
    assert variables(plan) == expected


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        ((5120,), "0.5000"),
        ((5120, 1024), "0.1000"),  # one fraction for all GPUs: the smallest
        ((5120, None), "0.5000"),
        ((7000,), "0.6835"),  # never rounded up
        ((10240,), "1.0000"),
        ((None,), None),
        ((), None),
    ],
)
def test_the_limit_as_a_share(limits: tuple[int | None, ...], share: str | None) -> None:
    """The smallest share of all limited GPUs, cut and not rounded, is the one fraction."""
    assert variables(planned(*limits)).get(OLD) == share


def test_a_share_of_an_unknown_total_is_not_guessed() -> None:
    """Without the total there is no share to write."""
    assert variables(planned(4096, total=None)) == {}


@pytest.mark.parametrize(
    ("baseline", "name"), [({}, OLD), ({OLD: "0.9"}, OLD), ({NEW: "0.9"}, NEW)]
)
def test_only_one_of_the_two_names_is_written(baseline: dict[str, str], name: str) -> None:
    """JAX refuses to start with both, so the user's name is taken; and the user's value stays."""
    (wish,) = wishes(planned(5120), baseline)
    assert wish.name == name
    assert variables(planned(5120), baseline) == ({} if baseline else {OLD: "0.5000"})
