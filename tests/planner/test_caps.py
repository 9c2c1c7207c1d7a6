"""The kernel's limits on a GPU's memory are terms of the minimum."""

from __future__ import annotations

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.machine.cards.inventory import Cap, Gpu
from gpuconf.planner import Plan
from gpuconf.planner.planning import make_plan
from gpuconf.profile.model import MemoryRules, Profile
from tests.planner.cards import amount, card, machine, share

WHOLE = Profile("whole", memory=MemoryRules(memory_limit=share(100), context=amount(400)))


def planned(profile: Profile, gpu: Gpu, cap: Cap) -> Plan:
    """The plan for ``profile`` on a GPU with this cap."""
    return make_plan(profile, machine(gpu._replace(caps=(cap,))), environ={})


def limit(plan: Plan) -> int | None:
    """The limit of the plan's GPU, in MiB."""
    (planned,) = plan.gpus
    return None if planned.limit_bytes is None else planned.limit_bytes // MIB


@pytest.mark.parametrize(("processes", "expected"), [(1, 3072 - 400), (2, 1536 - 400)])
def test_processes_share_what_a_group_has(processes: int, expected: int) -> None:
    """The kernel's limit is of the whole group, and includes each process's context."""
    profile = WHOLE._replace(processes=processes)
    plan = planned(profile, card(free=11264), Cap("dmem.max", 4 * GIB, GIB))
    assert limit(plan) == expected


def test_what_this_process_holds_itself_it_may_have_again() -> None:
    """The group's memory in use includes that of the process that plans."""
    gpu = card()._replace(own_bytes=512 * MIB)
    plan = planned(WHOLE, gpu, Cap("dmem.max", 4 * GIB, GIB))
    assert limit(plan) == 4096 - 512 - 400
    assert "dmem.max: 4096 MiB - 512 MiB in use - 400 MiB context" in plan.gpus[0].arithmetic[2]


def test_a_cap_is_no_rule_of_a_profile_without_a_limit() -> None:
    """Then the framework takes what it finds, as without gpuconf."""
    assert limit(planned(Profile("free"), card(), Cap("dmem.max", 2 * GIB))) is None


def test_a_cap_below_at_least_is_a_shortage_that_waiting_does_not_end() -> None:
    """It says so, where an idle GPU would not help either."""
    memory = WHOLE.memory._replace(at_least=amount(2048))
    with pytest.raises(RuntimeError, match="limit 624 MiB; at_least is 2048 MiB") as caught:
        planned(Profile("much", memory=memory), card(), Cap("dmem.max", GIB))
    assert "lower at_least, or raise the limit" in str(caught.value)
