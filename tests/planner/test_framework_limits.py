"""A GPU's limit as each framework is given it, with the sum that made it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.planner import FrameworkLimit, GpuPlan
from gpuconf.planner.frameworks import with_framework_limits
from gpuconf.planner.plan import FRAMEWORKS
from gpuconf.profile.model import JaxRules, MemoryRules, Profile
from tests.planner.cards import SHARED_DESKTOP, card, plan

PROFILE = Profile("any")


def limits(*planned: GpuPlan, profile: Profile = PROFILE) -> list[dict[str, FrameworkLimit]]:
    """For each GPU its limits by framework."""
    made = with_framework_limits(planned, profile)
    return [{limit.framework: limit for limit in gpu.limits} for gpu in made]


def gpu(limit_mib: int | None, *, total: int | None = 10 * GIB, index: int = 0) -> GpuPlan:
    """A GPU with this limit."""
    return GpuPlan(Gpu(index, total_bytes=total), None if limit_mib is None else limit_mib * MIB)


def test_every_framework_has_its_figure_and_its_sum() -> None:
    """Bytes for TensorFlow, a fraction for JAX and PyTorch; JAX counts in whole 2 MiB."""
    (found,) = limits(gpu(5121))
    assert list(found) == list(FRAMEWORKS)
    assert (found["tensorflow"].limit_bytes, found["tensorflow"].fraction) == (5121 * MIB, None)
    assert (found["jax"].limit_bytes, found["jax"].fraction) == (5120 * MIB, 0.5)
    share = found["torch"].fraction
    assert share is not None
    assert found["torch"].limit_bytes == int(share * 10 * GIB) == 5121 * MIB
    assert found["tensorflow"].arithmetic == ("memory_limit 5121 MiB",)
    assert found["jax"].arithmetic == (
        "5120 MiB (a multiple of 2 MiB) / 10240 MiB total = fraction 0.5",
    )
    assert found["torch"].arithmetic == (
        "5121 MiB / 10240 MiB total = fraction 0.5001, allocated as needed",
    )


def test_logical_devices_are_limits_of_their_own() -> None:
    """TensorFlow makes them also on a GPU without a limit, and says how much they may take."""
    (found,) = limits(gpu(None, total=None)._replace(logical_devices_bytes=(GIB, GIB)))
    assert list(found) == ["tensorflow"]
    assert found["tensorflow"].limit_bytes == 2 * GIB
    assert found["tensorflow"].arithmetic == ("memory_limit 1024 + 1024 MiB",)


def test_jax_has_one_fraction_and_says_whose() -> None:
    """The smallest share holds on every GPU, also where no rule limits one."""
    small, large, free = limits(gpu(1024), gpu(5120, index=1), gpu(None, index=2))
    assert {each["jax"].fraction for each in (small, large, free)} == {small["jax"].fraction}
    assert {each["jax"].limit_bytes for each in (small, large, free)} == {1024 * MIB}
    assert large["jax"].arithmetic[0].endswith("GPU 0 has the smallest")
    assert (large["torch"].limit_bytes, list(free)) == (5120 * MIB, ["jax"])


def test_without_a_total_there_is_no_fraction() -> None:
    """TensorFlow keeps its limit; the others say why they have none."""
    (found,) = limits(gpu(4096, total=None))
    assert found["tensorflow"].limit_bytes == 4096 * MIB
    assert found["jax"].limit_bytes is found["torch"].limit_bytes is None
    assert "the total" in found["jax"].arithmetic[0]
    assert "is unknown" in found["torch"].arithmetic[0]


@pytest.mark.parametrize(
    ("growth", "own", "at_once"),
    [(None, None, None), (True, None, False), (False, None, True), (True, True, True)],
)
def test_whether_it_is_taken_at_once(
    growth: bool | None, own: bool | None, at_once: bool | None
) -> None:
    """JAX's own key rules over growth; TensorFlow follows growth alone."""
    profile = Profile("any", memory=MemoryRules(allow_growth=growth), jax=JaxRules(own))
    (found,) = limits(gpu(4096)._replace(allow_growth=growth), profile=profile)
    assert found["jax"].at_once is at_once
    assert found["tensorflow"].at_once is (None if growth is None else not growth)


@given(sizes=st.lists(st.tuples(st.integers(2, 90_000), st.integers(64, 90_000)), max_size=4))
def test_no_framework_exceeds_the_limit(sizes: list[tuple[int, int]]) -> None:
    """Whatever the other GPUs: a framework's limit is never above the GPU's own."""
    planned = [gpu(limit, total=total * MIB) for limit, total in sizes]
    for plan_, found in zip(planned, limits(*planned), strict=True):
        allowed = min(plan_.limit_bytes or 0, plan_.gpu.total_bytes or 0)
        for framework in ("jax", "torch"):
            assert (found[framework].limit_bytes or 0) <= max(allowed, 2 * MIB)


def test_a_plan_has_them() -> None:
    """make_plan fills them in, from the final figures."""
    (planned,) = plan(SHARED_DESKTOP, card()).gpus
    assert [limit.framework for limit in planned.limits] == list(FRAMEWORKS)
    jax = planned.limit_of("jax")
    assert jax is not None
    assert planned.sums == (*planned.arithmetic, *planned.sums[-3:])
    assert f"JAX: {jax.arithmetic[0]}" in planned.sums
