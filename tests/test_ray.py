"""`gpuconf.ray` without a Ray."""

from __future__ import annotations

import pytest

import gpuconf.ray
from gpuconf.basics.units import GIB, MIB, Amount
from gpuconf.errors import UsageError
from gpuconf.machine.cards.inventory import Gpu, GpuShare
from gpuconf.planner.scheduler_share import part_for, share_term
from gpuconf.profile.model import GpuRules, MemoryRules
from gpuconf.ray import GpuPart, options_for


def test_check_is_silent_outside_ray() -> None:
    """A program that also runs without Ray may call it."""
    gpuconf.ray.check()


@pytest.mark.parametrize(
    ("outside_mib", "size_mib"),
    [*((1024, size) for size in (1, 2022, 2023, 6016, 6017, 99999)), (0, 3296)],
)
def test_a_part_is_the_smallest_that_gives_the_size(outside_mib: int, size_mib: int) -> None:
    """The limit that the planner computes from it is enough, and one step less is not.

    In the last row, floats compute a byte less than the fraction says.
    """
    gpu = Gpu(0, total_bytes=8 * GIB, share=GpuShare("Ray", 1.0, outside_bytes=outside_mib * MIB))
    rules = GpuRules(MemoryRules(keep_free=Amount(512 * MIB), context=Amount(640 * MIB)))
    part = part_for(size_mib * MIB, gpu, rules)
    assert part is not None
    assert part == round(part, 4)
    limits = [
        share_term(
            gpu._replace(share=GpuShare("Ray", each, outside_bytes=outside_mib * MIB)), rules
        )[0]
        for each in (part, part - 0.0001)
    ]
    enough, less = (limit or 0 for limit in limits)
    assert enough >= size_mib * MIB > less
    assert (part <= 1) == (size_mib <= 6016)


SMALL = GpuPart("GPU 0 on a accelerator_type:T4", 0.404)
LARGE = GpuPart("GPU 0 on b accelerator_type:A100", 0.1946)


def test_equal_gpus_have_one_part() -> None:
    """Up to 2 % apart, the larger one; a GPU without figures does not count."""
    near, unknown = SMALL._replace(part=0.404 * 1.02), SMALL._replace(part=None)
    assert options_for("2GiB", [SMALL, near, unknown], None) == {"num_gpus": near.part}
    of_type = {"num_gpus": 0.1946, "accelerator_type": "A100"}
    assert options_for("2GiB", [LARGE], "A100") == of_type


def test_different_gpus_are_listed_with_the_ways_out() -> None:
    """An error names each GPU and its part; it also says which GPUs are too small."""
    too_small = SMALL._replace(part=1.01)
    for other in (LARGE, SMALL._replace(part=0.404 * 1.021)):
        with pytest.raises(UsageError, match="2GiB is a different fraction of each GPU") as error:
            options_for("2GiB", [SMALL, other, too_small], None)
        assert f"\n  GPU 0 on a accelerator_type:T4: 0.4040\n  {other}\n" in str(error.value)
        assert "\n  GPU 0 on a accelerator_type:T4: too small" in str(error.value)
        assert "accelerator=TYPE" in str(error.value.hint)
        assert "ray start --resources=" in str(error.value.hint)
    with pytest.raises(UsageError, match="different fraction of each GPU"):
        options_for("7GiB", [too_small, SMALL._replace(part=1.0)], None)
    with pytest.raises(UsageError, match="no GPU of type T4 has room for 9GiB"):
        options_for("9GiB", [too_small], "T4")
    with pytest.raises(UsageError, match="no node in the cluster has a GPU"):
        options_for("2GiB", [], None)
