"""Waiting for memory: what is said, how often it is tried again, and what ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpuconf.basics.units import MIB
from gpuconf.errors import ShortageError
from gpuconf.machine.cards.inventory import Inventory
from gpuconf.planner import Plan
from gpuconf.profile.model import GpuSelection, Profile
from gpuconf.session.leasing import Make, OwnLeases
from gpuconf.session.plans import plan_with_lease, plan_within
from gpuconf.session.waiting import wait_for_plan
from tests.planner.cards import asking, card, lease, machine, plan, uuid


class Machine:
    """A machine whose GPU 0 has so much free at each look, with a clock that sleeping moves."""

    def __init__(self, *free_mib: int) -> None:
        self._free: Iterator[int] = iter([*free_mib, *[free_mib[-1]] * 10_000])
        self.now = 1000.0
        self.looks = 0

    def read(self) -> Inventory:
        self.looks += 1
        return machine(card(0, free=next(self._free)))

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def wait(self, profile: Profile, pause: Callable[[float], None] | None = None) -> Plan:
        return wait_for_plan(
            lambda: plan_within(profile, environ={}, read=self.read),
            pause=pause,
            clock=lambda: self.now,
            sleep=self.sleep,
        )


def test_waiting_ends_when_memory_is_freed(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is of the moment the GPU is free; a line when it begins to wait, and one after."""
    machine = Machine(500, 500, 500, 9000)
    made = machine.wait(asking(4096, "wait", 600.0))
    assert made.gpus[0].limit_bytes == (9000 - 512) * MIB
    assert machine.looks == 4
    assert machine.now < 1010
    said = capsys.readouterr().err
    assert said.startswith(
        "gpuconf: waiting up to 10min for memory: not enough GPU memory for profile asking on"
    )
    assert said.splitlines()[1:] == ["gpuconf: waited 6 s; continuing"]


def test_waiting_gives_up_when_its_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    """It waits no longer than asked, with a line every ten minutes, and the error says how long."""
    machine = Machine(500)
    with pytest.raises(ShortageError, match=r"gave up after 1201s: not enough"):
        machine.wait(asking(4096, "wait", 1201.0))
    assert machine.now == 2201
    assert capsys.readouterr().err.count("waiting") == 3


def test_a_shortage_that_no_waiting_can_end_is_told_at_once() -> None:
    """More than the GPU, or than the profile's own limit lets it take: nobody waits for that."""
    for profile in (asking(20000, "wait", 600.0), _beyond_its_own_limit()):
        machine = Machine(500)
        with pytest.raises(ShortageError):
            machine.wait(profile)
        assert (machine.looks, machine.now) == (1, 1000.0)


def _beyond_its_own_limit() -> Profile:
    profile = asking(6000, "wait", 600.0)
    memory = profile.memory._replace(memory_limit=None, per_process_gpu_memory_fraction=0.5)
    return profile._replace(memory=memory)


def test_without_a_wait_policy_there_is_one_look() -> None:
    """fail fails at once; cpu does not even raise."""
    machine = Machine(500)
    with pytest.raises(ShortageError):
        machine.wait(asking(4096))
    assert machine.wait(asking(4096, "cpu")).hides_gpus
    assert (machine.looks, machine.now) == (2, 1000.0)


def test_a_pause_of_the_callers() -> None:
    """It gets the seconds that are left, as from the ledger's queue, and ends when it likes."""
    machine, left = Machine(500, 500, 9000), list[float]()

    def pause(left_s: float) -> None:
        left.append(left_s)
        machine.now += 3

    assert machine.wait(asking(4096, "wait", 600.0), pause).gpus
    assert left == [600, 597]


class NoQueue(OwnLeases):
    """Makes a plan on two GPUs that other programs have reserved."""

    def plan(self, make: Make, *, profile: str) -> Plan:  # noqa: ARG002
        full = (card(index)._replace(leases=(lease(9000),)) for index in range(2))
        gpus = machine(*full)
        return make(lambda: gpus)


def test_a_program_queues_for_the_gpus_that_its_framework_has_listed() -> None:
    """It cannot use another, whatever the profile picks; until then it queues for all."""
    profile = asking(1024, "wait", 60)._replace(gpus=GpuSelection("pick", count=1))
    bound = plan(profile, card(1))
    for given, wanted in ((None, {uuid(0), uuid(1)}), (bound, {uuid(1)})):
        with pytest.raises(ShortageError) as caught:
            plan_with_lease(profile, {}, NoQueue(), bound=given, environ={})
        assert set(caught.value.wanted) == wanted
