"""A plan as the variables that JAX reads: pure, JAX itself is not needed."""

from __future__ import annotations

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.backends.jax.environment import limit_wishes, unenforced_limit, why_no_cap, wishes
from gpuconf.basics.environment import Change, settle
from gpuconf.basics.units import GIB, MIB
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.planner import GpuPlan, Plan
from gpuconf.planner.frameworks import share_of, with_framework_limits
from gpuconf.profile.model import JaxRules, MemoryRules, Profile

PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"
OLD, NEW = "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"


def planned(
    *limits_mib: int | None, total: int | None = 10 * GIB, growth: bool | None = None
) -> Plan:
    """A plan for GPUs of 10 GiB with these limits."""
    gpus = tuple(
        GpuPlan(Gpu(i, total_bytes=total), None if limit is None else limit * MIB, growth)
        for i, limit in enumerate(limits_mib)
    )
    profile = Profile("any", memory=MemoryRules(allow_growth=growth))
    return Plan(profile, tuple(with_framework_limits(gpus, profile)))


def wished(plan: Plan, baseline: dict[str, str]) -> list[Change]:
    """What JAX is to find in its environment."""
    return wishes(plan.profile, plan.allow_growth) + limit_wishes(
        plan, baseline, knows_new_name=False
    )


def variables(plan: Plan, baseline: dict[str, str] | None = None) -> dict[str, str]:
    """The variables that would be set over ``baseline``."""
    return settle(wished(plan, baseline or {}), baseline or {})[0]


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
        ((5120,), "0.5"),
        ((5120, 1024), "0.099999994"),  # one fraction for all GPUs: the smallest
        ((5120, None), "0.5"),
        ((7000,), "0.68359375"),
        ((10240,), "1"),
        ((None,), None),
        ((), None),
    ],
)
def test_the_limit_as_a_share(limits: tuple[int | None, ...], share: str | None) -> None:
    """The smallest share of all limited GPUs is the one fraction."""
    assert variables(planned(*limits)).get(OLD) == share


def test_a_share_of_an_unknown_total_is_not_guessed() -> None:
    """Without the total there is no share to write."""
    assert variables(planned(4096, total=None)) == {}


@pytest.mark.parametrize(
    ("baseline", "is_new", "name"),
    [
        ({}, False, OLD),
        ({}, True, NEW),
        ({OLD: "0.9"}, True, OLD),
        ({NEW: "0.9"}, False, NEW),
        ({OLD: "", NEW: "0.9"}, False, NEW),
    ],
)
def test_only_one_of_the_two_names_is_written(
    baseline: dict[str, str], is_new: bool, name: str
) -> None:
    """JAX refuses to start with both, so the user's name is taken, else the current one."""
    (wish,) = limit_wishes(planned(5120), baseline, knows_new_name=is_new)
    assert (wish.name, wish.value) == (name, "0.5")


@pytest.mark.parametrize("theirs", ["0.25", "0.5", "5e-1"])
def test_a_smaller_fraction_of_the_users_stays(theirs: str) -> None:
    """And is no difference to speak of."""
    changes, (setting,) = settle(wished(planned(5120), {OLD: theirs}), {OLD: theirs})
    assert changes == {OLD: theirs}
    assert setting.status == "ok"


@pytest.mark.parametrize("theirs", ["0.51", "1.5", "0", "-1", "nan", "half"])
def test_a_larger_fraction_gives_way(theirs: str) -> None:
    """And so does what is none: JAX would go on without the GPU."""
    changes, (setting,) = settle(wished(planned(5120), {OLD: theirs}), {OLD: theirs})
    assert changes == {OLD: "0.5"}
    assert setting.requested == theirs
    assert setting.effective == "0.5"
    assert "the plan's limit is 0.5 of the GPU" in str(setting)


def test_the_allocator() -> None:
    """A key of the profile, and what it means for the limit."""
    profile = planned(None).profile._replace(jax=JaxRules(allocator="platform"))
    (wish,) = wishes(profile, None)
    assert (wish.name, wish.value) == (ALLOCATOR, "platform")
    assert "without a limit" in (unenforced_limit({ALLOCATOR: "Platform"}) or "")
    assert "is not enforced" in (unenforced_limit({ALLOCATOR: "cuda_async"}) or "")
    assert "all of the GPU" in (unenforced_limit({"TF_FORCE_UNIFIED_MEMORY": "1"}) or "")
    assert unenforced_limit({ALLOCATOR: "default"}) is None
    assert unenforced_limit({}) is None
    why = why_no_cap("platform", setting="the client option allocator")
    assert (why or "").startswith("with the client option allocator=platform, ")


@pytest.mark.parametrize(
    ("policy", "end"),
    [("0.75+", "all"), ("0.3", "all"), ("0.3-0.6", "0.6"), ("0.3-0.5", None), ("0.2-0.4", None)],
)
def test_a_policy_that_grows_beyond_the_fraction(policy: str, end: str | None) -> None:
    """XLA's flag overrides the fraction, so the limit is no cap unless the policy ends below it."""
    flags = f"--xla_gpu_autotune_level=0 --xla_gpu_memory_fraction_policy={policy}"
    why = unenforced_limit({"XLA_FLAGS": flags, OLD: "0.5"})
    assert (why and why.split()[-4]) == end
    assert unenforced_limit({"XLA_FLAGS": "--xla_gpu_autotune_level=0", OLD: "0.5"}) is None


XLA_GRANULE = 2 * MIB


def given_by_xla(share: float, total: int) -> int:
    """The pool that XLA makes of a fraction, seen on jax 0.10.2: float32, up to whole 2 MiB."""
    exact = float(numpy.float32(share)) * total
    return math.ceil(exact / XLA_GRANULE) * XLA_GRANULE


@given(
    total=st.integers(64 * MIB, 200 * GIB),
    part=st.floats(0.0, 1.3, exclude_min=True),
)
def test_xla_stays_within_the_limit(total: int, part: float) -> None:
    """Never above the limit but for the 2 MiB that are XLA's least, and at most 4 MiB below."""
    limit = max(int(total * part), 1)
    share = share_of(limit, total)
    assert 0 < share <= 1
    pool = given_by_xla(float(f"{share:.9g}"), total)
    within = min(limit, total)
    assert pool <= max(within, XLA_GRANULE)
    assert pool >= within - 2 * XLA_GRANULE
