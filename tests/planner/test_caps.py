"""Limits that the kernel, MPS or HAMi have set: terms of the minimum; and MPS asked to hold one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpuconf.backends import environment_changes, voided_caps
from gpuconf.hardware.inventory import Cap, Gpu
from gpuconf.planner import Plan, make_plan
from gpuconf.profile.model import GpuRules, GpuSelection, MemoryRules, Profile
from gpuconf.units import GIB, MIB
from tests.planner.cards import SHARED_DESKTOP, amount, card, machine, share, uuid

MPS = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
HAMI = "CUDA_DEVICE_MEMORY_LIMIT"
WHOLE = Profile("whole", memory=MemoryRules(memory_limit=share(100), context=amount(400)))


def planned(
    profile: Profile, *gpus: Gpu, environ: Mapping[str, str] | None = None, mps: bool | None = None
) -> Plan:
    """The plan for ``profile`` with these variables, by default on one card."""
    inventory = machine(*(gpus or (card(),)))._replace(mps_is_running=mps)
    return make_plan(profile, inventory, environ=environ or {})


def limits(plan: Plan) -> list[int]:
    """The limits of the plan's cards, in MiB."""
    return [(each.limit_bytes or 0) // MIB for each in plan.gpus]


@pytest.mark.parametrize(
    ("environ", "expected", "line"),
    [
        ({MPS: "0=2G"}, 1648, f"{MPS}=0=2G: 2048 MiB - 400 MiB context = 1648 MiB"),
        ({MPS: "1=1G, 0=3000M"}, 2600, f"{MPS}=0=3000M: 3000 MiB - 400 MiB context = 2600 MiB"),
        ({MPS: f"{uuid(0)[:12]}=2G"}, 1648, "2048 MiB - 400 MiB context = 1648 MiB"),
        ({HAMI: "3000m"}, 2600, f"{HAMI}=3000m: 3000 MiB - 400 MiB context = 2600 MiB"),
        ({HAMI: "3g", f"{HAMI}_0": "1073741824"}, 624, f"{HAMI}_0=1073741824: 1024 MiB"),
        ({HAMI: "1g", MPS: "0=4G"}, 624, "limit = min(11264 MiB, 8919 MiB, 3696 MiB, 624 MiB)"),
    ],
)
def test_a_variable_with_a_limit_is_a_term_with_its_line(
    environ: dict[str, str], expected: int, line: str
) -> None:
    """It counts the context too, so the framework gets what is left beside that."""
    plan = planned(WHOLE, environ=environ)
    assert limits(plan) == [expected]
    assert any(line in each for each in plan.gpus[0].arithmetic), plan.gpus[0].arithmetic


@pytest.mark.parametrize(
    "value", ["", "1=1G", "0=", "0=much", "0", "=1G", "GPU-9=1G", "0=0", "9" * 5000 + "=1G"]
)
def test_what_limits_nothing_here_changes_nothing(value: str) -> None:
    """Entries of other cards, and texts that are no limit."""
    assert planned(WHOLE, environ={MPS: value}) == planned(WHOLE)


@pytest.mark.parametrize("value", ["", "0", "much", "-1", "1t", "1.5g"])
def test_what_hami_would_not_read_changes_nothing(value: str) -> None:
    """Its own zero is no limit either."""
    assert planned(WHOLE, environ={HAMI: value}) == planned(WHOLE)


def test_a_number_counts_the_gpus_that_the_process_sees() -> None:
    """As CUDA does: with CUDA_VISIBLE_DEVICES=1,0 the first is nvidia-smi's GPU 1."""
    cards = (card(0), card(1))
    plan = planned(WHOLE, *cards, environ={"CUDA_VISIBLE_DEVICES": "1,0", MPS: "0=2G"})
    assert [each.gpu.index for each in plan.gpus] == [1, 0]
    assert limits(plan) == [1648, 8919]
    assert [gpu.caps for gpu in plan.visible] == [(), ()]


def test_a_cap_is_no_rule_of_a_profile_without_a_limit() -> None:
    """Then the framework takes what it finds, as without gpuconf."""
    plan = planned(Profile("free"), environ={MPS: "0=2G"})
    assert plan.gpus[0].limit_bytes is None


@pytest.mark.parametrize(
    ("cap", "processes", "expected"),
    [
        (Cap("dmem.max", 4 * GIB, GIB), 1, 3072 - 400),
        (Cap("dmem.max", 4 * GIB, GIB), 2, 1536 - 400),
        (Cap("MPS", 4 * GIB, is_of_process=True), 2, 4096 - 400),
    ],
)
def test_processes_share_what_a_group_has_and_not_what_each_has(
    cap: Cap, processes: int, expected: int
) -> None:
    """The kernel's limit is of the whole group, that of MPS of each process."""
    gpu = card(free=11264)._replace(caps=(cap,))
    assert limits(planned(WHOLE._replace(processes=processes), gpu)) == [expected]


def test_what_this_process_holds_itself_it_may_have_again() -> None:
    """The group's memory in use includes that of the process that plans."""
    gpu = card()._replace(caps=(Cap("dmem.max", 4 * GIB, GIB),), own_bytes=512 * MIB)
    plan = planned(WHOLE, gpu)
    assert limits(plan) == [4096 - 512 - 400]
    assert "dmem.max: 4096 MiB - 512 MiB in use - 400 MiB context" in plan.gpus[0].arithmetic[2]


def test_a_cap_below_at_least_is_a_shortage_that_waiting_does_not_end() -> None:
    """It says so, where an idle card would not help either."""
    memory = WHOLE.memory._replace(at_least=amount(2048))
    with pytest.raises(
        RuntimeError,
        match="limit 624 MiB; at_least is 2048 MiB",
    ) as caught:
        planned(Profile("much", memory=memory), environ={MPS: "0=1G"})
    assert "lower at_least or virtual_devices, or raise the limit" in str(caught.value)


def enforcing(how: str | None) -> Profile:
    """shared-desktop with this ``memory.enforce``."""
    return SHARED_DESKTOP._replace(memory=SHARED_DESKTOP.memory._replace(enforce=how))


def mps_value(plan: Plan) -> str | None:
    """What would be written for MPS."""
    changes = environment_changes(plan.profile, plan, {})
    return next((change.value for change in changes if change.name == MPS), None)


@pytest.mark.parametrize("how", ["auto", "mps"])
@pytest.mark.parametrize("running", [True, None])
def test_mps_is_to_hold_limit_and_context(how: str, running: bool | None) -> None:
    """Each GPU by its place in the plan; also where the daemon cannot be seen from here."""
    plan = planned(enforcing(how), card(0), card(1, free=5000), mps=running)
    assert mps_value(plan) == "0=8295M,1=3976M"
    assert "MPS enforces 7783 MiB limit + 512 MiB context = 8295 MiB" in plan.gpus[0].arithmetic
    assert voided_caps(plan, {}) == []


def test_a_smaller_limit_of_the_users_own_stays() -> None:
    """It is a term of the plan, and what is written comes to the same."""
    plan = planned(enforcing("mps"), mps=True, environ={MPS: "0=2G"})
    assert mps_value(plan) == "0=2048M"


@pytest.mark.parametrize("how", ["none", None])
def test_without_enforce_nothing_is_written(how: str | None) -> None:
    """The default: a framework whose context is larger than estimated must not fail for it."""
    assert mps_value(planned(enforcing(how), mps=True)) is None


def test_asked_and_not_in_effect_is_said() -> None:
    """No daemon: nothing is written, and the report has why; auto asks for what there is."""
    plan = planned(enforcing("mps"), mps=False)
    assert mps_value(plan) is None
    (setting,) = voided_caps(plan, {"CUDA_MPS_PIPE_DIRECTORY": "/run/pipes"})
    assert str(setting) == (
        "memory.enforce: asked mps, got none: no MPS control daemon in /run/pipes, so only the "
        "framework's own limit holds; `nvidia-cuda-mps-control -d` starts one"
    )
    assert voided_caps(planned(enforcing("auto"), mps=False), {}) == []


def test_nothing_to_enforce_is_said() -> None:
    """A profile without a limit."""
    plan = planned(Profile("free", memory=MemoryRules(enforce="mps")), mps=True)
    assert [setting.why_not for setting in voided_caps(plan, {})] == [
        "no GPU has a limit in this profile; `memory_limit: 90%` is one"
    ]


def test_one_gpu_alone_may_be_enforced() -> None:
    """By per_gpu, whose numbers count the profile's GPUs."""
    rules = GpuRules(SHARED_DESKTOP.memory._replace(enforce="mps"))
    profile = SHARED_DESKTOP._replace(per_gpu=((1, rules),), gpus=GpuSelection())
    plan = planned(profile, card(0), card(1, free=5000), mps=True)
    assert mps_value(plan) == "1=3976M"
