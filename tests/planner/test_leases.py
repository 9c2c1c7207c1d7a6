"""What others have leased of a GPU, what it leaves, and the lease that a plan requests."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB, Amount
from gpuconf.errors import ShortageError
from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess
from gpuconf.planner import GpuPlan, Plan, is_within, wants_leases
from gpuconf.planner.context import context_bytes
from gpuconf.planner.limits import plan_gpu
from gpuconf.planner.planning import make_plan
from gpuconf.profile.model import GpuRules, GpuSelection, MemoryRules, OnShortage, Profile
from tests.planner.cards import (
    SHARED_DESKTOP,
    amount,
    asking,
    card,
    lease,
    machine,
    mib,
    mig_instance,
    numbers,
    pick,
    plan,
    share,
    uuid,
)

KNOWN = card()  # 11264 MiB, of which 9319 are free; compute capability 7.5


def leased(gpu: Gpu, *leases: CardLease, ahead: int = 0) -> Gpu:
    """``gpu`` with these leases of others, and so many that wait before us."""
    return gpu._replace(leases=leases, ahead=ahead)


def planned(gpu: Gpu, *devices: Amount, **memory: Any) -> GpuPlan:
    """The plan of ``gpu`` with these memory rules and logical devices."""
    return plan_gpu(gpu, GpuRules(MemoryRules(**memory), devices))


# --- what others have leased --------------------------------------------------------------------


def test_a_holder_of_which_little_is_known_has_its_pid() -> None:
    """Neither program nor user need be readable."""
    unnamed = CardLease(99, 3000 * MIB, 0)
    made = planned(leased(KNOWN, unnamed), context=amount(0))
    assert made.arithmetic[0].startswith("reserved by pid 99: 3000 MiB, 0 MiB in use")
    parent = planned(leased(KNOWN, unnamed._replace(is_parent=True)), context=amount(0))
    assert parent.arithmetic[0].startswith(
        "reserved by pid 99, which started this program: 3000 MiB"
    )


def test_of_many_leases_the_largest_are_shown_and_all_count() -> None:
    """Four lines by what is not taken yet, and one for the rest, if any, with its sum."""
    sizes = (100, 900, 300, 800, 500, 200)
    leases = [lease(size, 50, pid=size) for size in sizes]
    made = planned(leased(KNOWN, *leases), context=amount(0))
    shown = [line.split()[3] for line in made.arithmetic if line.startswith("reserved by pid")]
    assert shown == ["900", "800", "500", "300"]
    assert made.arithmetic[4] == "2 more reservations: 200 MiB not used yet"
    four = planned(leased(KNOWN, *leases[:4]), context=amount(0)).arithmetic
    assert not any("more reservation" in line for line in four)
    assert mib(made.limit_bytes) == 9319 - (sum(sizes) - 6 * 50)
    nearly_used = lease(9000, 8900, pid=9000)
    made = planned(leased(KNOWN, nearly_used, *leases), context=amount(0))
    assert not any("9000" in line for line in made.arithmetic)


def test_an_estimate_for_several_is_not_split() -> None:
    """The calculation shows their sum, and the most that they may still take."""
    leases = [lease(1000, used, pid=used)._replace(is_estimate=True) for used in (900, 0, 0, 0, 0)]
    made = planned(leased(KNOWN, *leases), context=amount(0)).arithmetic
    assert made[:4] == ("reserved by pid 0 train.py (ann): 1000 MiB, an unknown amount in use",) * 4
    assert made[4] == "1 more reservation: 1000 MiB reserved"
    assert made[5].startswith(
        "these reservations combined: about 900 MiB in use, at most 4100 MiB not"
    )
    alone = planned(leased(KNOWN, leases[0]), context=amount(0)).arithmetic
    assert alone[0].endswith(": 1000 MiB, about 900 MiB in use, 100 MiB not used yet")


# --- lease: false, and GPUs of one process ------------------------------------------------------


@pytest.mark.parametrize(
    ("exclusive", "rule", "counts"),
    [
        (False, None, True),
        (None, None, True),
        (True, None, False),
        (True, True, True),
        (True, False, False),
        (False, False, False),
        (None, False, False),
    ],
)
def test_where_leases_count(exclusive: bool | None, rule: bool | None, counts: bool) -> None:
    """As the profile says, else unless the GPU takes one process at a time.

    Where they do not, others' leases are neither shown nor taken off, and none is taken.
    """
    gpu = leased(KNOWN._replace(is_exclusive=exclusive), lease(5000), ahead=2)
    made = planned(gpu, memory_limit=share(100), lease=rule)
    assert mib(made.limit_bytes) == 9319 - 512 - (5000 if counts else 0)
    assert (made.lease_bytes is not None) is counts
    assert any("reserved" in line for line in made.arithmetic) is counts
    assert (made.shortage is not None) is counts  # two wait ahead of this one


def test_a_shortage_without_leases_names_no_leases() -> None:
    """Who has leased the GPU is of no interest to a profile that does not count it."""
    gpu = leased(card(free=600), lease(5000))
    profile = asking(4096)
    with pytest.raises(ShortageError) as caught:
        plan(profile, gpu)
    assert caught.value.held_by == "pid 7 train.py (ann): 5000 MiB reserved, 0 MiB in use"
    without = profile._replace(memory=profile.memory._replace(lease=False))
    with pytest.raises(ShortageError) as caught:
        plan(without, gpu._replace(processes=(GpuProcess(4, MIB, "perhaps with a lease"),)))
    assert caught.value.held_by == "pid 4 (perhaps with a lease): 1 MiB in use"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, False),
        ({"allow_growth": True, "at_least": amount(1024)}, False),
        ({"lease": True}, False),  # no limit, so nothing to lease
        ({"memory_limit": amount(1024)}, True),
        ({"per_process_gpu_memory_fraction": 0.5}, True),
        ({"keep_free": amount(1024)}, True),
        ({"context": amount(1024)}, True),
        ({"memory_limit": amount(1024), "lease": True}, True),
        ({"memory_limit": amount(1024), "lease": False}, False),
    ],
)
def test_which_profiles_lease(rules: dict[str, Any], expected: bool) -> None:
    """Those with a limit, unless they say not to; one GPU's rules are enough, no GPU is none."""
    memory = MemoryRules(**rules)
    assert wants_leases(Profile("any", memory=memory)) is expected
    assert wants_leases(Profile("one", per_gpu=((0, GpuRules(memory)),))) is expected
    assert not wants_leases(Profile("cpu", memory=memory, gpus=GpuSelection("none")))
    halves = (share(50), share(50))
    assert wants_leases(Profile("pair", memory=memory, virtual_devices=halves)) is (
        memory.lease is not False
    )


# --- a plan that a framework has been given already ---------------------------------------------


def held_to(gpus: tuple[Gpu, ...], limit_mib: int | None = None) -> Plan:
    """The plan of a profile with this limit, or none."""
    return plan(Profile("any", memory=MemoryRules(memory_limit=amount(limit_mib))), *gpus)


def test_a_plan_that_takes_no_more_still_holds() -> None:
    """Of the same GPUs in the same order, each limit no higher; what NVML says now is no matter."""
    two = (card(0), card(1))
    now = tuple(gpu._replace(free_bytes=8000 * MIB) for gpu in two)
    assert is_within(held_to(two, 4000), held_to(now, 4000))
    assert is_within(held_to(two, 4000), held_to(now, 5000))
    assert not is_within(held_to(two, 4000), held_to(now, 3999))
    shorter = (two[0], two[1]._replace(free_bytes=3000 * MIB))
    assert not is_within(held_to(two, 4000), held_to(shorter, 4000))


def test_a_plan_of_other_gpus_does_not_hold() -> None:
    """Another GPU, another order, fewer or more of them."""
    two = (card(0), card(1))
    bound = held_to(two, 1000)
    assert is_within(bound, held_to(two, 5000))
    for other in ((card(1), card(0)), (card(0), card(2)), two[:1], (*two, card(2))):
        assert not is_within(bound, held_to(other, 5000))


def test_a_plan_that_hides_all_gpus_holds_where_none_is_to_be_had() -> None:
    """And only there: a GPU that has room by now is used."""
    full = (card(0, free=600),)
    hidden = plan(asking(4096, "cpu"), *full)
    roomy = plan(asking(4096, "cpu"), card(0))
    assert hidden.hides_gpus
    assert is_within(hidden, hidden)
    assert not is_within(hidden, roomy)
    assert not is_within(roomy, hidden)


def test_without_growth_the_whole_limit_is_reserved() -> None:
    """If the user's own variable switches it off, TensorFlow allocates all at the start."""
    memory = MemoryRules(
        memory_limit=amount(4096), context=amount(512), allow_growth=True, reserve=amount(1024)
    )
    profile = Profile("grows", memory=memory)
    for value, leased_mib in ((None, 1024), ("true", 1024), ("false", 4096)):
        environ = {} if value is None else {"TF_FORCE_GPU_ALLOW_GROWTH": value}
        (made,) = make_plan(profile, machine(card()), environ=environ).gpus
        assert made.lease_bytes == (leased_mib + 512) * MIB
        assert bool(made.preallocated_bytes) == (value != "false")


# --- those that wait ----------------------------------------------------------------------------


def line(profile: Profile, *ahead: int, action: str = "fail", wait_s: float | None = None) -> Plan:
    """The plan for roomy GPUs, for which so many wait, with this policy."""
    gpus = [leased(card(index), ahead=count) for index, count in enumerate(ahead)]
    memory = profile.memory._replace(on_shortage=OnShortage(action, wait_s))
    return plan(profile._replace(memory=memory), *gpus)


ROOMY = asking(1024)


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (1, "1 program is waiting ahead of this program"),
        (3, "3 programs are waiting ahead of this program"),
    ],
)
def test_who_comes_later_takes_nothing_that_others_wait_for(ahead: int, words: str) -> None:
    """There is room, and still it is a shortage; with a wait it can be waited out."""
    with pytest.raises(ShortageError) as caught:
        line(ROOMY, ahead)
    assert caught.value.shortage == words
    assert str(caught.value).startswith("other programs are already waiting for GPU 0 (")
    assert str(caught.value).count(words) == 1
    assert caught.value.wait_s is None
    with pytest.raises(ShortageError) as caught:
        line(ROOMY, ahead, action="wait", wait_s=math.inf)
    assert caught.value.wait_s == math.inf
    assert caught.value.wanted == {uuid(0): (1024 + 512) * MIB}


def test_both_reasons_are_given() -> None:
    """Too little is left, and others wait for it."""
    made = planned(leased(card(free=612), ahead=1), memory_limit=share(100), at_least=amount(4096))
    assert made.shortage == (
        "612 MiB free; 4608 MiB needed (512 MiB context + 4096 MiB at_least); "
        "1 program is waiting ahead of this program"
    )


def test_with_cpu_nobody_stands_in_line() -> None:
    """The GPU for which others wait is passed over, and with no other the CPU computes."""
    made = line(ROOMY, 1, 0, action="cpu")
    assert numbers(made) == [1]
    assert (
        "is skipped: 1 program is waiting ahead of this program (on_shortage: cpu)" in made.notes[0]
    )
    assert line(ROOMY, 1, action="cpu").hides_gpus


def test_all_passes_on_to_a_card_without_a_line() -> None:
    """gpus: all means all that will do; a list means those GPUs."""
    made = line(ROOMY, 2, 0)
    assert numbers(made) == [1]
    assert "another GPU has room" in made.notes[0]
    with pytest.raises(ShortageError):
        line(ROOMY, 2, 1)
    with pytest.raises(ShortageError):
        line(ROOMY._replace(gpus=GpuSelection("list", (0, 1))), 2, 0)


# --- which GPU is picked -----------------------------------------------------------------------


def test_the_most_free_card_is_the_one_with_most_to_lease() -> None:
    """An empty GPU that is promised to another is not free."""
    gpus = [leased(card(0, free=11000), lease(9000)), card(1, free=6000)]
    memory = MemoryRules(memory_limit=share(100))
    made = plan(pick(1)._replace(memory=memory), *gpus)
    assert numbers(made) == [1]
    assert numbers(plan(pick(1)._replace(memory=memory._replace(lease=False)), *gpus)) == [0]


def test_cards_for_which_others_wait_are_picked_last() -> None:
    """Less room and no line is better than room that another is to have."""
    gpus = [leased(card(0, free=9000), ahead=1), card(1, free=4000), card(2, free=3000)]
    profile = pick(2)._replace(memory=MemoryRules(memory_limit=amount(1024)))
    assert numbers(plan(profile, *gpus)) == [1, 2]
    assert numbers(plan(profile._replace(gpus=GpuSelection("pick", count=1)), *gpus)) == [1]
    careless = profile._replace(memory=profile.memory._replace(lease=False))
    assert numbers(plan(careless, *gpus)) == [0, 1]


def test_a_pick_waits_for_any_card_that_would_do() -> None:
    """All that it could choose are wanted; a list wants those that it names."""
    gpus = [leased(card(index), lease(9000)) for index in range(3)]
    profile = asking(1024, "wait", 60)
    with pytest.raises(ShortageError) as caught:
        plan(profile._replace(gpus=GpuSelection("pick")), *gpus)
    assert set(caught.value.wanted) == {uuid(0), uuid(1), uuid(2)}
    with pytest.raises(ShortageError) as caught:
        plan(profile._replace(gpus=GpuSelection("list", (1,))), *gpus)
    assert set(caught.value.wanted) == {uuid(1)}


# --- what a shortage says -----------------------------------------------------------------------


def test_a_shortage_names_who_leases_and_who_only_holds() -> None:
    """A lease is named once, its holder's children are not; others with what they hold."""
    held = {7: (500, "python"), 70: (1500, "worker"), 8: (900, "Xorg")}
    processes = tuple(GpuProcess(pid, size * MIB, name) for pid, (size, name) in held.items())
    processes = (*processes[:2], processes[2]._replace(kind="graphics"))
    gpu = card(free=1600)._replace(processes=processes)
    gpu = leased(gpu, lease(8000, 2000)._replace(pids=(7, 70)))
    with pytest.raises(ShortageError) as caught:
        plan(SHARED_DESKTOP, gpu)
    assert caught.value.held_by == (
        "pid 7 train.py (ann): 8000 MiB reserved, 2000 MiB in use; pid 8 (Xorg): 900 MiB in use"
    )
    text = str(caught.value)
    assert f"used or reserved by {caught.value.held_by}" in text
    assert "reserved by pid 7 train.py (ann): 8000 MiB, 2000 MiB in use, 6000 MiB not used" in text
    assert "lease = " not in text  # there is none


def test_mig_instances_are_leased_one_by_one() -> None:
    """An instance has its own UUID, and what is leased of its neighbor is not its business."""
    instances = (mig_instance(1, 10240), mig_instance(2, 10240))
    cut = card(0)._replace(
        mig_enabled=True,
        leases=(lease(9000),),  # of the GPU as a whole: taken before it was cut
        mig_instances=(leased(instances[0], lease(4000, 1000)), instances[1]),
    )
    profile = Profile("any", memory=MemoryRules(memory_limit=share(100)))
    made = make_plan(profile, machine(cut), environ={})
    assert [mib(each.limit_bytes) for each in made.gpus] == [10240 - 3000 - 640, 10240 - 640]
    assert [mib(each.lease_bytes) for each in made.gpus] == [10240 - 3000, 10240]


# --- the promise --------------------------------------------------------------------------------

SIZES = st.integers(0, 20 * GIB)
LEASES = st.lists(st.builds(CardLease, st.integers(1, 99), SIZES, st.none() | SIZES), max_size=6)
RULES = st.builds(
    MemoryRules,
    per_process_gpu_memory_fraction=st.none() | st.floats(0.001, 1),
    memory_limit=st.none() | SIZES.map(Amount),
    keep_free=st.none() | SIZES.map(Amount),
    context=st.none() | st.integers(0, 2 * GIB).map(Amount),
    at_least=st.none() | SIZES.map(Amount),
    lease=st.sampled_from([None, True]),
    reserve=st.none() | SIZES.map(Amount),
)


@settings(deadline=None)
@given(free=SIZES, leases=LEASES, rules=RULES)
def test_no_card_is_promised_twice(free: int, leases: list[CardLease], rules: MemoryRules) -> None:
    """What we lease and what others may still take are never more than what is free.

    Unless there is a shortage, and then nothing is leased.
    """
    made = plan_gpu(leased(card(free=None)._replace(free_bytes=free), *leases), GpuRules(rules))
    if made.lease_bytes is None:
        assert made.limit_bytes is None
    elif made.shortage is None:
        to_come = sum(max(0, each.lease_bytes - (each.used_bytes or 0)) for each in leases)
        assert made.lease_bytes + to_come <= free
        reserved = made.limit_bytes or 0
        if rules.reserve is not None:
            reserved = min(reserved, rules.reserve.size_bytes or 0)
        assert made.lease_bytes == reserved + (context_bytes(made.gpu, rules) or 0)


def test_a_limit_cut_by_others_is_said() -> None:
    """The program gets less than its profile says, and hears of it; else nothing is said."""
    rules = MemoryRules(memory_limit=amount(6000), context=amount(0))
    profile = Profile("half", memory=rules)
    holder = CardLease(7, 5000 * MIB, 2000 * MIB)
    made = plan(profile, card(free=7000)._replace(leases=(holder,)))
    assert mib(made.gpus[0].limit_bytes) == 4000
    assert made.notes == (
        "limit on GPU 0 (NVIDIA GeForce RTX 2080 Ti) reduced from 6000 MiB to 4000 MiB: other "
        "processes have reserved 3000 MiB that they are not using yet",
    )
    whole = plan(profile, card(free=9319)._replace(leases=(holder,)))
    assert (mib(whole.gpus[0].limit_bytes), whole.notes) == (6000, ())


def test_a_wait_without_a_limit_is_said() -> None:
    """Nothing can be short under such a profile, so it never waits."""
    rules = MemoryRules(on_shortage=OnShortage("wait", 600.0))
    made = plan(Profile("waiting", memory=rules), card())
    assert "on_shortage has no effect in profile waiting" in made.notes[0]
    with_least = rules._replace(at_least=amount(100))
    assert plan(Profile("waiting", memory=with_least), card()).notes == ()


def test_the_hint_names_what_applies() -> None:
    """Waiting to those who do not; a limit each to a program and its workers."""
    full = card(free=100)._replace(leases=(CardLease(7, 5000 * MIB, 0, is_parent=True),))
    with pytest.raises(ShortageError) as caught:
        plan(asking(4000), full)
    assert (
        caught.value.hint
        == "set a memory_limit for this program and one for the program that started it"
    )
    with pytest.raises(ShortageError) as caught:
        plan(asking(4000, "wait", 60.0), card(free=100), card(1, free=100))
    assert caught.value.hint == "see what uses the GPU with `gpuconf ps`"
    with pytest.raises(ShortageError) as caught:
        plan(asking(4000), card(free=100))
    assert caught.value.hint == (
        "wait for memory with `gpuconf run --wait 10min -- COMMAND`, or see what uses the GPU "
        "with `gpuconf ps`"
    )
    with pytest.raises(ShortageError) as caught:
        plan(asking(1), card()._replace(ahead=2))
    assert "other programs are already waiting" in caught.value.message
    assert "half-card" not in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("rules", "held"),
    [
        ({"allow_growth": True}, 1000),
        ({"allow_growth": True, "hold": True}, 1000),
        ({"allow_growth": True, "hold": False}, 0),
        ({"allow_growth": True, "reserve": None}, 0),  # the limit is for growth, up to the whole
        ({"allow_growth": True, "memory_limit": amount(900)}, 0),
        ({"allow_growth": True, "lease": False}, 0),
        ({"allow_growth": False}, 0),  # the framework takes the whole limit
        ({}, 0),
    ],
)
def test_what_the_framework_takes_at_once(rules: dict[str, Any], held: int) -> None:
    """The reserve, where it is leased, below the limit, and memory grows."""
    memory = {"memory_limit": amount(6000), "reserve": amount(1000), **rules}
    assert planned(KNOWN, **memory).preallocated_bytes == held * MIB
