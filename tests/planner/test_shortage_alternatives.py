"""What a shortage's hint proposes would start on that GPU now, or nothing is proposed."""

from __future__ import annotations

import re

import pytest

from gpuconf.basics.units import MIB
from gpuconf.errors import ShortageError
from gpuconf.machine.cards.inventory import CardLease, Gpu
from gpuconf.planner import Plan
from gpuconf.profile import Profile, load_profile
from gpuconf.session.plans import plan_within
from tests.planner.cards import card, machine

NAMES = ("shared-desktop", "notebook", "half-card", "small-laptop", "dedicated", "virtual-pair")
LEASED = CardLease(7, 3000 * MIB, 1000 * MIB)
CARDS = [
    *(card(total=8192, free=free) for free in range(0, 8192, 256)),
    *(card(total=8192, free=free)._replace(leases=(LEASED,)) for free in range(0, 8192, 512)),
]


def decide(profile: Profile, gpu: Gpu) -> Plan:
    """The plan on that GPU alone."""
    return plan_within(profile, environ={}, read=lambda: machine(gpu))


def hint_of(profile: Profile, gpu: Gpu) -> str | None:
    """The hint of its shortage; None where it has a plan."""
    try:
        decide(profile, gpu)
    except ShortageError as error:
        return error.hint or ""
    return None


def shortage_of(profile: Profile, gpu: Gpu) -> str:
    """What the error says is missing."""
    with pytest.raises(ShortageError) as caught:
        decide(profile, gpu)
    return caught.value.shortage or ""


@pytest.mark.slow  # reads two thousand profiles
@pytest.mark.parametrize("name", NAMES)
def test_what_is_proposed_would_start(name: str) -> None:
    """The profile, or the setting, has a plan there, with the limit that the hint says."""
    profile, seen = load_profile(name), set()
    for gpu in CARDS:
        hint = hint_of(profile, gpu)
        if hint is None:
            continue
        found = re.match(r"(.*) would start now, limited to (\d+) MiB\n", hint)
        seen.add(found is not None)
        if found is None:
            assert not [each for each in NAMES if hint_of(load_profile(each), gpu) is None]
            assert "half-card" not in hint
            continue
        other = re.search("GPUCONF_PROFILE=([a-z-]+)", found[1])
        setting = {"memory": {"at_least": "256MiB"}}
        proposed = load_profile(other[1]) if other else load_profile(name, overrides=setting)
        assert other or "`--set memory.at_least=256MiB`" in found[1]
        assert decide(proposed, gpu).gpus[0].limit_bytes == int(found[2]) * MIB
    assert seen == {True, False}


def test_what_must_be_free_would_do() -> None:
    """The figure is the least with which the same profile has a plan."""
    for name in ("shared-desktop", "half-card", "dedicated"):
        profile = load_profile(name)
        found = re.search(r"; (\d+) MiB needed", shortage_of(profile, card(free=300)))
        assert found, name
        assert hint_of(profile, card(free=int(found[1]))) is None
        assert hint_of(profile, card(free=int(found[1]) - 1)) is not None


def test_a_program_that_waits_is_offered_nothing_else() -> None:
    """It gets its own profile when memory is free again."""
    waiting = load_profile("dedicated", overrides={"memory": {"on_shortage": {"wait": "1min"}}})
    assert "would start now" not in (hint_of(waiting, card(free=5000)) or "")
    assert "would start now" in (hint_of(load_profile("dedicated"), card(free=5000)) or "")
