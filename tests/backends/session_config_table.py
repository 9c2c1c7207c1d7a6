"""Rows of (plan, what the script asks, what it gets); run by test_session_config.py."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from gpuconf.backends.tensorflow.session_config import limit_to_plan
from gpuconf.basics.units import MIB
from gpuconf.machine.cards import Gpu, Inventory
from gpuconf.planner import GpuPlan, Plan
from gpuconf.planner.planning import make_plan
from gpuconf.profile import Profile
from gpuconf.profile.model import GpuSelection

PROFILE = Profile(name="test")


def gpu(limit_mib: int | None, *, total_mib: int = 10240, **fields: Any) -> GpuPlan:
    """A planned GPU."""
    limit = None if limit_mib is None else limit_mib * MIB
    return GpuPlan(Gpu(index=0, total_bytes=total_mib * MIB), limit, True, **fields)


def plan(*gpus: GpuPlan) -> Plan:
    """A plan of these GPUs."""
    return Plan(PROFILE, gpus=gpus)


def config(
    fraction: float = 0.0, virtual: tuple[tuple[int, ...], ...] = (), visible: str = ""
) -> Any:
    """What a script requests."""
    made = tf.compat.v1.ConfigProto()
    made.gpu_options.per_process_gpu_memory_fraction = fraction
    made.gpu_options.visible_device_list = visible
    for sizes in virtual:
        made.gpu_options.experimental.virtual_devices.add().memory_limit_mb.extend(sizes)
    return made


def outcome(held: Any) -> tuple[float, list[list[float]]]:
    """The fraction to four digits, and the virtual devices."""
    options = held.gpu_options
    virtual = [list(v.memory_limit_mb) for v in options.experimental.virtual_devices]
    return round(options.per_process_gpu_memory_fraction, 4), virtual


EIGHT, FIVE = gpu(8192, fraction=0.8), gpu(5120)
PAIR = gpu(6000, logical_devices_bytes=(3000 * MIB, 3000 * MIB))
ROWS = [
    # why, plan, asked, (fraction, virtual devices), how many changes are told
    ("nothing asked: the plan's own fraction", plan(EIGHT), config(), (0.8, []), 0),
    ("more asked: held, and told", plan(EIGHT), config(0.9), (0.8, []), 1),
    ("less asked: kept", plan(EIGHT), config(0.25), (0.25, []), 0),
    ("limit not from a fraction: one that gives it", plan(FIVE), config(), (0.5, []), 0),
    ("no limit: nothing is touched", plan(gpu(None)), config(0.9), (0.9, []), 0),
    ("logical devices: as sizes", plan(PAIR), config(), (0.0, [[3000, 3000]]), 0),
    (
        "logical devices and a small fraction: scaled into it",
        plan(PAIR), config(0.25), (0.0, [[1280, 1280]]), 0,
    ),
    (
        "unequal GPUs: sizes, since one fraction cannot say it",
        plan(EIGHT, FIVE), config(), (0.0, [[8192], [5120]]), 0,
    ),
    (
        "equal shares of unequal GPUs: one fraction",
        plan(EIGHT, gpu(16384, total_mib=20480, fraction=0.8)), config(), (0.8, []), 0,
    ),
    (
        "no figures of any GPU: a size, since no fraction is known",
        Plan(PROFILE, unknown_gpu=GpuPlan(Gpu(0), 5120 * MIB, True)), config(0.9),
        (0.0, [[5120]]), 0,
    ),
    ("visible_device_list picks the GPU", plan(EIGHT, FIVE), config(visible="1"), (0.5, []), 0),
    (
        "own virtual devices that fit: kept",
        plan(EIGHT), config(virtual=((2000, 3000),)), (0.0, [[2000, 3000]]), 0,
    ),
    (
        "own virtual devices that do not: scaled alike, and told",
        plan(FIVE), config(virtual=((5120, 5120),)), (0.0, [[2560, 2560]]), 1,
    ),
    (
        "own virtual device without a size: it would take all",
        plan(FIVE), config(virtual=((),)), (0.0, [[5120]]), 0,
    ),
]  # fmt: skip


def main() -> None:
    """Check every row, then the plan that hides the GPUs."""
    for why, planned, asked, expected, told in ROWS:
        before = asked.SerializeToString()
        held, changes = limit_to_plan(asked, planned)
        assert outcome(held) == expected, (why, outcome(held), expected)
        assert len(changes) == told, (why, changes)
        assert held.gpu_options.allow_growth, why
        assert asked.SerializeToString() == before, f"{why}: the script's own proto was changed"
        print("holds:", why)
    held, _ = limit_to_plan(
        config(0.9), make_plan(PROFILE._replace(gpus=GpuSelection("none")), Inventory(), environ={})
    )
    assert held.device_count["GPU"] == 0
    print("holds: a plan that hides the GPUs")


if __name__ == "__main__":
    main()
