"""GPUCONF_RUN: what `gpuconf run` has decided, written and read back, and plans made from it."""

from __future__ import annotations

import json
import os

import pytest

from gpuconf.basics.environment import RUN_VARIABLE
from gpuconf.basics.units import MIB
from gpuconf.errors import UsageError
from gpuconf.machine.cards.inventory import GpuProcess, Inventory
from gpuconf.planner import Plan
from gpuconf.profile import load_profile
from gpuconf.profile.model import Profile
from gpuconf.session import run_variable
from gpuconf.session.plans import plan_within
from tests.planner.cards import card, lease, machine, uuid

BUSY = machine(
    card(0)._replace(leases=(lease(2000, 500),), processes=(GpuProcess(7, 500 * MIB),)),
    card(1, free=5000),
)
LEASES = {uuid(0): "/run/gpuconf/a/lease.1", uuid(1): "/run/gpuconf/b/lease.1"}
PROFILES = {
    "shared-desktop": load_profile("shared-desktop")._replace(processes=2),
    "wait": load_profile(
        "shared-desktop", overrides={"memory": {"on_shortage": {"wait": "forever"}}}
    ),
    "per_gpu": load_profile(
        "half-card", overrides={"per_gpu": {1: {"memory": {"memory_limit": "30%"}}}}
    ),
    "pair": load_profile("virtual-pair"),
    "cpu": load_profile("cpu-only"),
}


def made(profile: Profile, inventory: Inventory, **environ: str) -> Plan:
    """The plan that the run itself makes."""
    return plan_within(profile, {}, environ=environ, read=lambda: inventory)


def carried(plan: Plan, inventory: Inventory) -> run_variable.RunPlan:
    """What a program of the run reads."""
    text = run_variable.encode(plan, inventory, LEASES, "/somewhere/gpuconf")
    found = run_variable.read({RUN_VARIABLE: text})
    assert found is not None
    return found


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("figures", ["figures", "none"])
def test_a_program_comes_to_the_runs_own_limits(name: str, figures: str) -> None:
    """Planned again from what was carried: the same GPUs, limits and logical devices."""
    inventory = BUSY if figures == "figures" else Inventory(problem="no driver", gpus=())
    plan = made(PROFILES[name], inventory)
    run = carried(plan, inventory)
    again = plan_within(run.profile, {}, run=run)
    assert [gpu.limit_bytes for gpu in again.gpus] == [gpu.limit_bytes for gpu in plan.gpus]
    assert [gpu.gpu.uuid for gpu in again.gpus] == [gpu.gpu.uuid for gpu in plan.gpus]
    assert [g.logical_devices_bytes for g in again.gpus] == [
        g.logical_devices_bytes for g in plan.gpus
    ]
    assert (again.hides_gpus, again.allow_growth) == (plan.hides_gpus, plan.allow_growth)
    assert again.cuda_visible_devices == plan.cuda_visible_devices
    assert again.notes == ()  # the run has said them


def test_a_program_may_narrow_what_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA_VISIBLE_DEVICES set within the run: fewer GPUs, with the limits that they had."""
    plan = made(PROFILES["shared-desktop"], BUSY)
    run = carried(plan, BUSY)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", uuid(1))
    again = plan_within(run.profile, {}, run=run)
    assert [gpu.gpu.uuid for gpu in again.gpus] == [uuid(1)]
    assert again.gpus[0].limit_bytes == plan.gpus[1].limit_bytes


def test_what_old_pythons_read() -> None:
    """The finished plan, its frameworks' fractions among it, and no list of processes."""
    plan = made(PROFILES["shared-desktop"], BUSY)
    text = run_variable.encode(plan, BUSY, LEASES, "/somewhere/gpuconf")
    data = json.loads(text)
    assert (data["format"], data["processes"], data["leases"]) == (1, 2, LEASES)
    assert data["package"] == "/somewhere/gpuconf"
    first = data["plan"]["gpus"][0]
    assert first["limit_bytes"] == plan.gpus[0].limit_bytes
    assert first["gpu"]["uuid"] == uuid(0)
    frameworks = [limit["framework"] for limit in first["limits"]]
    assert frameworks == ["tensorflow", "jax", "torch"]
    assert '"pid":7' in text  # of the lease, which the arithmetic needs
    assert '"processes":[{' not in text
    assert len(text) < 128 * 1024 / 16  # the kernel's most for one variable, with many GPUs


@pytest.mark.parametrize(
    "change",
    [
        '{"format": 1',
        "[]",
        "[" * 100_000,
        "{}",
        '{"format":1,"version":"0.0.0"}',
        '{"format":2}',
        "limit_bytes",
    ],
)
def test_a_plan_that_cannot_be_used_is_refused(change: str) -> None:
    """Another version's, a damaged one, one with another field: never a plan without a limit."""
    text = change
    if change == "limit_bytes":
        good = run_variable.encode(made(PROFILES["wait"], BUSY), BUSY, LEASES, "")
        text = good.replace('"keep_free":{', '"keep_fee":{')
        assert text != good
    with pytest.raises(UsageError, match="GPUCONF_RUN"):
        run_variable.read({RUN_VARIABLE: text})


def test_no_run() -> None:
    """Without the variable, or with an empty one, there is none."""
    assert run_variable.read({}) is None
    assert run_variable.read({RUN_VARIABLE: ""}) is None
    assert RUN_VARIABLE not in os.environ
