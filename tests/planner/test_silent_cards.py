"""GPUs that NVML counts and cannot ask: lost, or closed to this user."""

from __future__ import annotations

import pytest

from gpuconf.errors import ProfileError
from gpuconf.machine.cards.inventory import RAY, Gpu
from gpuconf.machine.schedulers import Assigned, with_share
from gpuconf.planner.planning import make_plan
from gpuconf.profile.model import Profile
from tests.planner.cards import FOUR, card, choose, machine, numbers, pick, plan, small_card, uuid

EVERYTHING = Profile("everything")
LOST = (FOUR[0], Gpu(1), FOUR[2])
NOTE = "GPU 1 does not respond to NVML (lost, or not accessible to this user): not used"


def test_a_silent_card_is_left_out_and_the_sound_ones_are_named_by_uuid() -> None:
    """One number in the list would make all of them numbers, and CUDA may end it at that GPU."""
    made = plan(EVERYTHING, *LOST)
    assert sorted(numbers(made)) == [0, 2]
    assert set((made.cuda_visible_devices or "").split(",")) == {uuid(0), uuid(2)}
    assert made.cuda_device_order is None
    assert made.notes == (NOTE,)


def test_a_silent_card_is_left_out_under_a_schedulers_share() -> None:
    """The share is ours, and says nothing about a GPU that does not answer."""
    shared = with_share(machine(*LOST), Assigned(RAY, 0.5, "0.5 of a GPU"))
    made = make_plan(EVERYTHING, shared, environ={})
    assert sorted(numbers(made)) == [0, 2]


def test_numbers_in_nvidia_smis_order_become_uuids() -> None:
    """With CUDA_DEVICE_ORDER=PCI_BUS_ID the user's numbers are certain, the lost GPU's too."""
    made = plan(EVERYTHING, *LOST, visible="1,2", order="PCI_BUS_ID")
    assert numbers(made) == [2]
    assert made.cuda_visible_devices == uuid(2)


def test_numbers_of_uncertain_order_stay_the_users() -> None:
    """Whether CUDA counts a lost GPU is unknown, so the entries are the user's own."""
    made = plan(EVERYTHING, *LOST, visible="0,1")
    assert numbers(made) == [0, 2]
    assert made.cuda_visible_devices is None


def test_a_pick_never_takes_a_silent_card() -> None:
    """Not even to make up the number; a pick that has enough says what it passed over."""
    assert plan(pick(1), *LOST).notes == (NOTE,)
    made = plan(pick(3), *LOST)
    assert numbers(made) == [2, 0]
    assert made.notes == (NOTE, "the profile picks 3 GPUs, but only 2 can be used")


def test_a_list_that_names_a_silent_card_is_refused() -> None:
    """Which GPU to use instead is the user's to say."""
    with pytest.raises(ProfileError) as caught:
        plan(choose(0, 1), *LOST)
    assert "gpus names 0, 1, but GPU 1 does not respond to NVML" in str(caught.value)
    assert "gpuconf doctor" in str(caught.value.hint)
    assert caught.value.key == "gpus"
    assert numbers(plan(choose(0, 2), *LOST)) == [0, 2]


def test_a_child_leaves_a_silent_card_out_as_well() -> None:
    """A GPU that falls silent after the parent's choice is not used by the child."""
    made = plan(EVERYTHING, *LOST, chosen_by_parent="1,2", order="PCI_BUS_ID")
    assert (numbers(made), made.cuda_visible_devices) == ([2], uuid(2))


@pytest.mark.parametrize("profile", [EVERYTHING, pick(1), choose(0)])
@pytest.mark.parametrize("visible", [None, "0"])
def test_where_no_card_answers_nothing_is_hidden(profile: Profile, visible: str | None) -> None:
    """NVML may know nothing of a machine on which CUDA works, such as a Jetson."""
    made = plan(profile, Gpu(0), visible=visible)
    assert numbers(made) == [0]
    assert made.cuda_visible_devices is None
    assert not made.hides_gpus


def test_two_cards_that_do_not_answer_are_both_kept() -> None:
    """No GPU is better than another there; today's numbers in nvidia-smi's order are written."""
    made = plan(EVERYTHING, Gpu(0), Gpu(1))
    assert (numbers(made), made.cuda_visible_devices) == ([0, 1], "0,1")
    assert made.cuda_device_order == "PCI_BUS_ID"
    assert made.notes == ()


def test_a_card_without_figures_or_uuid_is_no_silent_one() -> None:
    """Unified memory has no figures and an old driver no UUID; both answer, and both are used."""
    dark = small_card(1)._replace(total_bytes=None, free_bytes=None, uuid=None)
    assert numbers(plan(EVERYTHING, card(0), dark, order="PCI_BUS_ID")) == [0, 1]
