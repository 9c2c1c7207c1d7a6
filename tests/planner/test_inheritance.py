"""A child of a process that gpuconf has configured: its plan stays within the parent's choice."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.errors import ProfileError
from gpuconf.machine.cards.inventory import Gpu, Inventory
from gpuconf.machine.cards.visible_devices import resolve
from gpuconf.planner import Plan
from gpuconf.planner.planning import make_plan
from gpuconf.profile.model import GpuRules, GpuSelection, MemoryRules, Profile
from tests.planner.cards import (
    ALL,
    FOUR,
    PROBLEM,
    SHARED_DESKTOP,
    amount,
    card,
    card_of,
    choose,
    machine,
    numbers,
    pick,
    plan,
    small_card,
    uuid,
)

EVERYTHING = Profile("everything")
NOTHING_KNOWN = Inventory(problem=PROBLEM)


@pytest.mark.parametrize(
    ("profile", "chosen_by_parent", "visible", "expected", "written"),
    [
        (EVERYTHING, uuid(2), None, [2], uuid(2)),
        (EVERYTHING, uuid(2), "0,2", [2], uuid(2)),
        (EVERYTHING, f"{uuid(3)},{uuid(1)}", None, [3, 1], f"{uuid(3)},{uuid(1)}"),
        (EVERYTHING, uuid(2), "2", [2], None),  # the user's list says it already
        (EVERYTHING, None, "2,0", [2, 0], None),
        (pick(1), uuid(0), None, [0], uuid(0)),
        (pick(1), f"{uuid(1)},{uuid(0)}", None, [1], uuid(1)),
        (pick(2), f"{uuid(1)},{uuid(0)}", None, [1, 0], f"{uuid(1)},{uuid(0)}"),
        (pick(1), None, None, [3], uuid(3)),
        (choose(1), uuid(1), None, [1], uuid(1)),  # as the parent, with the same profile
        (choose(1), uuid(2), "3,2", [2], uuid(2)),
        (choose(0), uuid(3), None, [3], uuid(3)),  # leads outside: the parent's first
        (choose(1, 0), f"{uuid(3)},{uuid(2)}", None, [2, 3], f"{uuid(2)},{uuid(3)}"),
        (choose(uuid(3), 1), f"{uuid(3)},{uuid(2)}", None, [3, 2], f"{uuid(3)},{uuid(2)}"),
        (choose("GPU-3e"), f"{uuid(3)},{uuid(2)}", None, [3], uuid(3)),
    ],
)
def test_a_child_stays_within_its_parents_choice(
    profile: Profile,
    chosen_by_parent: str | None,
    visible: str | None,
    expected: list[int],
    written: str | None,
) -> None:
    """Every kind of gpus is narrowed to it, in its order, and that is written out."""
    made = plan(profile, *FOUR, visible=visible, chosen_by_parent=chosen_by_parent)
    assert numbers(made) == expected
    assert made.cuda_visible_devices == written
    assert made.notes == ()


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        (choose(1), "gpus: 1 matches no visible GPU (visible: 0: NVIDIA"),
        (choose(uuid(1)), f"gpus: '{uuid(1)}' matches no visible GPU"),
        (choose(4), "gpus: 4 matches no visible GPU"),
        (choose(0, uuid(3)), "names GPU 3 (NVIDIA GeForce RTX 2080 Ti) twice"),
    ],
)
def test_a_member_outside_the_parents_choice_is_refused(profile: Profile, words: str) -> None:
    """It is an error that shows what the parent left, with a hint."""
    with pytest.raises(ProfileError) as caught:
        plan(profile, *FOUR, chosen_by_parent=uuid(3))
    assert words in str(caught.value)
    # Nobody sees a variable that a parent process wrote, so the hint shows it.
    inherited = f"CUDA_VISIBLE_DEVICES={uuid(3)}, inherited"
    assert ("name each GPU once" if "twice" in words else inherited) in str(caught.value.hint)
    assert caught.value.key == "gpus"


@pytest.mark.parametrize("inventory", [machine(*FOUR), NOTHING_KNOWN])
@pytest.mark.parametrize("profile", [EVERYTHING, pick(1), choose(0), choose(uuid(1))])
@pytest.mark.parametrize("chosen_by_parent", ["-1", ""])
def test_a_parent_that_hides_every_gpu_hides_them_from_its_children(
    inventory: Inventory, profile: Profile, chosen_by_parent: str
) -> None:
    """With figures and without, whatever the profile: no GPU, and a note that says who said so."""
    made = make_plan(profile, inventory, environ={}, chosen_by_parent=chosen_by_parent)
    assert made.hides_gpus
    assert made.cuda_visible_devices == "-1"
    assert made.unknown_gpu is None
    assert made.notes == (
        f"CUDA_VISIBLE_DEVICES={chosen_by_parent}, inherited from the parent process, "
        "hides every GPU",
    )


def test_a_parents_card_that_is_gone_leaves_no_gpu() -> None:
    """When the parent's GPU has failed the others stay closed to its child, and a note says why."""
    made = plan(EVERYTHING, *FOUR[:3], chosen_by_parent=uuid(3))
    assert (made.hides_gpus, made.cuda_visible_devices) == (True, "-1")
    (note,) = made.notes
    assert note.endswith("hides every GPU (no device has a UUID that starts with it)")


def test_a_child_on_unequal_cards_picks_what_its_parent_picked() -> None:
    """The parent kept the user's own index; to the child it means the same GPU."""
    gpus = (small_card(0), card(1), card(2, total=24000, free=100))
    parent = plan(pick(1), *gpus, visible="0,1")
    assert (numbers(parent), parent.cuda_visible_devices) == ([1], "1")
    later = (gpus[0], gpus[1], card(2, total=24000, free=23000))
    child = plan(pick(1), *later, visible="0,1", chosen_by_parent=parent.cuda_visible_devices)
    assert numbers(child) == [1]
    assert child.cuda_visible_devices == "1"


def test_a_parents_numbers_stay_numbers_where_their_order_is_uncertain() -> None:
    """A parent without figures wrote CUDA's number; a UUID in its place could be another GPU."""
    gpus = (small_card(0), card(1))
    parent = make_plan(choose(0), NOTHING_KNOWN, environ={})
    assert parent.cuda_visible_devices == "0"
    child = plan(EVERYTHING, *gpus, chosen_by_parent=parent.cuda_visible_devices)
    assert (child.cuda_visible_devices, child.cuda_device_order) == ("0", None)
    limited = MemoryRules(memory_limit=amount(4096), context=amount(0))
    made = plan(Profile("limited", memory=limited), *gpus, chosen_by_parent="0")
    assert [gpu.limit_bytes for gpu in made.gpus] == [1900 * MIB]


def test_per_gpu_counts_as_gpus_does() -> None:
    """Numbers of per_gpu are places in the same list as those of gpus."""
    small = GpuRules(MemoryRules(memory_limit=amount(1024)))
    rules = MemoryRules(memory_limit=amount(2048))
    first = choose(0)._replace(memory=rules, per_gpu=((0, small),))
    for chosen_by_parent in (uuid(0), uuid(3)):  # by the user's list, and by the parent's
        (gpu,) = plan(first, *FOUR, chosen_by_parent=chosen_by_parent).gpus
        assert gpu.limit_bytes == 1024 * MIB
    every = Profile("every", memory=rules, per_gpu=((3, small),))
    (gpu,) = plan(every, *FOUR, chosen_by_parent=uuid(3)).gpus
    assert gpu.limit_bytes == 1024 * MIB


@pytest.mark.parametrize(
    ("profile", "chosen_by_parent", "visible", "written"),
    [
        (EVERYTHING, "GPU-abc", None, "GPU-abc"),
        (SHARED_DESKTOP, "1", "0,1", "1"),
        (pick(1), "GPU-abc,GPU-bcd", None, "GPU-abc,GPU-bcd"),
        (choose(1), "GPU-abc,GPU-bcd", None, "GPU-bcd"),
        (choose("GPU-b"), "GPU-abc,GPU-bcd", None, "GPU-bcd"),
        (choose(1), "5", "3,5", "5"),  # the user's second, which the parent chose too
        (choose(0), "5", "3,5", "5"),  # the parent's first
        (choose(2), "0,2", None, "2"),
        (EVERYTHING, None, "0,1", None),
    ],
)
def test_without_figures_the_parents_choice_stays(
    profile: Profile, chosen_by_parent: str | None, visible: str | None, written: str | None
) -> None:
    """The inherited value is kept, narrowed by a list, and never undone."""
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    made = make_plan(profile, NOTHING_KNOWN, environ=environ, chosen_by_parent=chosen_by_parent)
    assert made.cuda_visible_devices == written
    assert not made.hides_gpus


def test_without_figures_a_member_outside_the_parents_choice_is_refused() -> None:
    """A place that the parent's list has not, and a UUID that it lacks."""
    for member in (1, "GPU-b"):
        with pytest.raises(ProfileError, match="CUDA_VISIBLE_DEVICES=GPU-abc does not include"):
            make_plan(choose(member), NOTHING_KNOWN, environ={}, chosen_by_parent="GPU-abc")


KINDS = st.sampled_from(
    [ALL, GpuSelection("pick"), GpuSelection("pick", count=2)]
    + [GpuSelection("list", members) for members in ((0,), (1, 0), ("GPU-2e",), (uuid(1), 3))]
)
MACHINES = st.lists(st.sampled_from(["big", "small", "nameless"]), max_size=4).map(
    lambda kinds: tuple(card_of(kind, index) for index, kind in enumerate(kinds))
)
ENVIRONS = st.fixed_dictionaries(
    {},
    optional={
        "CUDA_VISIBLE_DEVICES": st.lists(
            st.sampled_from(["0", "1", "2", "3", "-1", uuid(0), uuid(2)]), max_size=4
        ).map(",".join),
        "CUDA_DEVICE_ORDER": st.just("PCI_BUS_ID"),
    },
)


@settings(deadline=None)
@given(gpus=MACHINES, environ=ENVIRONS, parents=KINDS, childs=KINDS, figures=st.booleans())
def test_a_child_is_never_wider_than_its_parent(
    gpus: tuple[Gpu, ...],
    environ: dict[str, str],
    parents: GpuSelection,
    childs: GpuSelection,
    *,
    figures: bool,
) -> None:
    """What CUDA shows after the child's plan is a part of what it shows after the parent's."""
    inventory = machine(*gpus)
    value, order = environ.get("CUDA_VISIBLE_DEVICES"), environ.get("CUDA_DEVICE_ORDER")
    # An entry that names nothing ends a list, which nobody can know without figures.
    assume(figures or not resolve(value, gpus, device_order=order).ignored)
    try:
        parent = make_plan(Profile("parent", gpus=parents), inventory, environ=environ)
        child = make_plan(
            Profile("child", gpus=childs),
            inventory if figures else NOTHING_KNOWN,
            environ=environ,
            chosen_by_parent=parent.cuda_visible_devices,
            order_by_parent=parent.cuda_device_order,
        )
    except ProfileError:
        return
    assert _shown(child, gpus, environ) <= _shown(parent, gpus, environ)


def _shown(made: Plan, gpus: tuple[Gpu, ...], environ: dict[str, str]) -> set[Gpu]:
    """What CUDA shows once the plan's variables are written over the user's."""
    written = made.cuda_visible_devices
    value = environ.get("CUDA_VISIBLE_DEVICES") if written is None else written
    order = made.cuda_device_order or environ.get("CUDA_DEVICE_ORDER")
    return set(resolve(value, gpus, device_order=order).devices)
