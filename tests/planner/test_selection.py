"""Which GPUs a plan takes, the rules each gets, and what CUDA_VISIBLE_DEVICES it writes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB, Amount
from gpuconf.errors import ProfileError
from gpuconf.machine.cards.inventory import Gpu, Inventory
from gpuconf.machine.cards.visible_devices import resolve
from gpuconf.planner.planning import make_plan
from gpuconf.profile.model import GpuRules, GpuSelection, MemoryRules, Profile
from gpuconf.session.plans import plan_within
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
    mig_instance,
    numbers,
    pick,
    plan,
    small_card,
    uuid,
)

PICK_ONE = GpuSelection("pick")


@pytest.mark.parametrize(
    ("profile", "visible", "expected", "written"),
    [
        (Profile("all"), None, [0, 1, 2, 3], None),
        (Profile("all"), "2,0", [2, 0], None),
        (choose(1), None, [1], uuid(1)),
        (choose(2, 0), None, [2, 0], f"{uuid(2)},{uuid(0)}"),
        (choose(0, 1, 2, 3), None, [0, 1, 2, 3], None),
        (choose("GPU-3e"), None, [3], uuid(3)),
        (choose(uuid(2), 0), None, [2, 0], f"{uuid(2)},{uuid(0)}"),
        (choose(1), "3,2", [2], uuid(2)),  # the second of those that the user shows
        (choose("GPU-2e"), "3,2", [2], uuid(2)),
        (pick(1), None, [3], uuid(3)),
        (pick(2), None, [3, 2], f"{uuid(3)},{uuid(2)}"),
        (pick(1), "0,1", [1], uuid(1)),
    ],
)
def test_which_gpus_are_taken(
    profile: Profile, visible: str | None, expected: list[int], written: str | None
) -> None:
    """All, a list, or the freest; UUIDs are written where that narrows or reorders."""
    made = plan(profile, *FOUR, visible=visible)
    assert numbers(made) == expected
    assert made.cuda_visible_devices == written
    assert made.cuda_device_order is None
    assert not made.hides_gpus
    assert made.notes == ()


def test_a_pick_of_equally_free_cards_is_the_first() -> None:
    """Ties go by nvidia-smi's order; a GPU that tells no figure comes last."""
    gpus = (card(0, free=None), card(1, free=5000), card(2, free=5000))
    assert numbers(plan(pick(1), *gpus)) == [1]
    assert numbers(plan(pick(3), *gpus)) == [1, 2, 0]


def test_a_pick_of_more_than_there_are_takes_what_there_is() -> None:
    """Fewer GPUs than picked is the machine's lack: a note, no error."""
    made = plan(pick(3), *FOUR[:2])
    assert numbers(made) == [1, 0]
    assert made.notes == ("the profile picks 3 GPUs, but only 2 can be used",)


@pytest.mark.parametrize(
    ("profile", "visible", "words"),
    [
        (choose(4), None, "gpus: 4 matches no visible GPU (visible: 0: NVIDIA"),
        (choose(1), "2", "gpus: 1 matches no visible GPU"),
        (choose("GPU-f"), None, "gpus: 'GPU-f' matches no visible GPU"),
        (choose("GPU-0e"), "1", "gpus: 'GPU-0e' matches no visible GPU"),
        (choose("GPU-"), None, "gpus: 'GPU-' matches more than one GPU"),
        (choose(1, "GPU-1e"), None, "twice, the second time as 'GPU-1e'"),
    ],
)
def test_a_member_that_names_no_single_gpu_is_refused(
    profile: Profile, visible: str | None, words: str
) -> None:
    """Unknown, ambiguous, hidden or repeated: an error with the GPUs that can be named."""
    with pytest.raises(ProfileError) as caught:
        plan(profile, *FOUR, visible=visible)
    assert words in str(caught.value)
    assert caught.value.hint is not None
    assert caught.value.key == "gpus"


def test_per_gpu_rules_go_to_the_gpu_they_name() -> None:
    """By place among the visible, or by UUID; one that names no visible GPU is told of."""
    small = GpuRules(MemoryRules(memory_limit=amount(1024)))
    tiny = GpuRules(MemoryRules(memory_limit=amount(512)))
    profile = Profile(
        "unequal",
        memory=MemoryRules(memory_limit=amount(2048)),
        per_gpu=((1, small), ("GPU-3e", tiny), (7, tiny)),
    )
    made = plan(profile, *FOUR)
    limits = [(gpu.limit_bytes or 0) // MIB for gpu in made.gpus]
    assert limits == [2048, 1024, 2048, 512]
    assert made.notes == ("per_gpu.7 does not match any visible GPU; ignored",)
    narrowed = plan(profile, *FOUR, visible="2,0")
    assert [(gpu.limit_bytes or 0) // MIB for gpu in narrowed.gpus] == [2048, 1024]


def test_growth_that_differs_between_gpus_is_refused() -> None:
    """TensorFlow has one switch; GPUs that are not used together may differ."""
    grows = GpuRules(MemoryRules(allow_growth=True))
    profile = Profile("two", memory=MemoryRules(allow_growth=False), per_gpu=((1, grows),))
    with pytest.raises(ProfileError, match="one switch for all"):
        plan(profile, *FOUR[:2])
    assert plan(profile._replace(gpus=GpuSelection("list", (1,))), *FOUR).allow_growth is True
    assert plan(profile, FOUR[0]).allow_growth is False


def test_unequal_cards_are_shown_fastest_first_by_uuid() -> None:
    """CUDA's order of unequal GPUs is its secret; UUIDs settle it, the fast GPU stays first."""
    gpus = (small_card(0), card(1), card(2, total=24000, free=20000))
    made = plan(Profile("all"), *gpus)
    assert numbers(made) == [2, 1, 0]
    assert made.cuda_visible_devices == f"{uuid(2)},{uuid(1)},{uuid(0)}"
    in_pci_order = plan(Profile("all"), *gpus, order="PCI_BUS_ID")
    assert numbers(in_pci_order) == [0, 1, 2]
    assert in_pci_order.cuda_visible_devices is None


def test_indices_on_unequal_cards_get_the_smallest_limit() -> None:
    """Whichever GPU CUDA means by an index, limit and logical devices fit it."""
    halves = (Amount(share=0.5), Amount(share=0.5))
    rules = MemoryRules(context=amount(0))
    profile = Profile("pair", memory=rules, virtual_devices=halves)
    gpus = (card(0), small_card(1))
    made = plan(profile, *gpus, visible="0,1")
    assert [gpu.limit_bytes for gpu in made.gpus] == [1900 * MIB] * 2
    assert [gpu.logical_devices_bytes for gpu in made.gpus] == [(950 * MIB,) * 2] * 2
    assert [gpu.lease_bytes for gpu in made.gpus] == [1900 * MIB] * 2
    assert made.cuda_visible_devices is None
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in made.notes[0]
    assert any("smallest of all" in line for line in made.gpus[0].arithmetic)
    narrowed = plan(profile._replace(gpus=GpuSelection("list", (0,))), *gpus, visible="0,1")
    assert numbers(narrowed) == [0]
    assert [gpu.limit_bytes for gpu in narrowed.gpus] == [1900 * MIB]
    assert narrowed.cuda_visible_devices == "0"


@pytest.mark.parametrize(
    ("visible", "expected"), [("0", [1]), ("1", [0]), ("1,0", [0, 1]), ("0,1,7", [1, 0])]
)
def test_an_index_on_unequal_cards_is_read_as_cuda_most_likely_does(
    visible: str, expected: list[int]
) -> None:
    """CUDA's 0 is the fast GPU, though nvidia-smi lists the small one first; with a note."""
    gpus = (small_card(0), card(1))
    made = plan(Profile("all"), *gpus, visible=visible)
    assert numbers(made) == expected
    assert made.cuda_visible_devices is None
    assert "cannot tell which GPU" in made.notes[0]
    assert numbers(plan(Profile("all"), *gpus, visible="0", order="PCI_BUS_ID")) == [0]


def test_what_a_list_leaves_out_is_said() -> None:
    """One GPU is left, and the user meant two; a list that ends as it should says nothing."""
    (note,) = plan(SHARED_DESKTOP, *FOUR, visible="0,7,1").notes
    assert note == "CUDA_VISIBLE_DEVICES=\"0,7,1\" leaves out '7': there is no GPU 7"
    assert plan(SHARED_DESKTOP, *FOUR, visible="0,1").notes == ()


def test_two_rules_for_one_gpu_are_refused() -> None:
    """By its number and by its UUID: which of the two holds would depend on their order."""
    twice = Profile("twice", per_gpu=((0, GpuRules()), (FOUR[0].uuid or "", GpuRules())))
    with pytest.raises(ProfileError, match=r"per_gpu names GPU 0 .* twice, as 0 and as GPU-"):
        plan(twice, *FOUR)


def test_a_list_of_uuids_is_certain_on_unequal_cards() -> None:
    """UUIDs mean one GPU each, so every GPU keeps its own limit and nothing is said."""
    made = plan(SHARED_DESKTOP, card(0), card(1, total=4096, free=4000), visible=uuid(1))
    assert numbers(made) == [1]
    assert made.notes == ()


def test_cards_without_uuids_are_named_by_numbers_in_pci_order() -> None:
    """Where a UUID is unknown, numbers are written, and CUDA is told to count as nvidia-smi."""
    nameless = tuple(gpu._replace(uuid=None) for gpu in FOUR)
    made = plan(choose(2), *nameless)
    assert (made.cuda_visible_devices, made.cuda_device_order) == ("2", "PCI_BUS_ID")


def test_the_users_own_indices_keep_their_order_variable() -> None:
    """Entries kept as the user wrote them must not change meaning through CUDA_DEVICE_ORDER."""
    nameless = (card(0)._replace(uuid=None), small_card(1)._replace(uuid=None))
    made = plan(choose(1), *nameless, visible="0,1")
    assert (made.cuda_visible_devices, made.cuda_device_order) == ("1", None)


ENTRIES = st.sampled_from(
    ["0", "1", "2", "3", "7", "-1", "", " 1", uuid(0), uuid(2), "GPU-1e", "GPU-", "GPU-9", "x"]
)
VALUES = st.none() | st.lists(ENTRIES, max_size=4).map(",".join)
KINDS = st.sampled_from(
    [ALL, GpuSelection("none"), PICK_ONE, GpuSelection("pick", count=2)]
    + [GpuSelection("list", members) for members in ((0,), (1, 0), ("GPU-2e",), (uuid(1), 3))]
)
MACHINES = st.lists(st.sampled_from(["big", "small", "nameless", "dark"]), max_size=4).map(
    lambda kinds: tuple(card_of(kind, index) for index, kind in enumerate(kinds))
)


@settings(deadline=None)
@given(gpus=MACHINES, value=VALUES, order=st.none() | st.just("PCI_BUS_ID"), selection=KINDS)
def test_what_the_user_shows_is_narrowed_never_widened(
    gpus: tuple[Gpu, ...], value: str | None, order: str | None, selection: GpuSelection
) -> None:
    """After the plan's variables CUDA shows the planned GPUs, in their order, all the user's."""
    profile = Profile("any", gpus=selection, memory=MemoryRules(keep_free=Amount(100 * MIB)))
    before = resolve(value, gpus, device_order=order)
    try:
        made = plan(profile, *gpus, visible=value, order=order)
    except ProfileError:
        return
    after = resolve(
        value if made.cuda_visible_devices is None else made.cuda_visible_devices,
        gpus,
        device_order=made.cuda_device_order or order,
    )
    assert set(after.devices) <= set(before.devices)
    planned = [gpu.gpu for gpu in made.gpus]
    if value is None or before.order_certain:
        assert list(after.devices) == planned
        assert after.order_certain
    else:
        # What the numbers mean is uncertain, so the entries themselves stay or go.
        assert made.cuda_device_order is None
        written = made.cuda_visible_devices
        assert written is None or set(written.split(",")) <= {*value.split(","), "-1"}
        if not made.hides_gpus:
            assert len(after.devices) == len(planned)
        assert len({gpu.limit_bytes for gpu in made.gpus}) <= 1


@settings(deadline=None)
@given(
    members=st.lists(st.sampled_from([0, 1, 5, "GPU-a", "GPU-b"]), min_size=1, unique=True),
    value=st.lists(st.sampled_from(["3", "GPU-abc", "GPU-bcd", "-1", ""]), max_size=3).map(
        ",".join
    ),
)
def test_without_nvml_a_list_is_narrowed_too(members: list[int | str], value: str) -> None:
    """Nobody knows the GPUs then, but what is written comes from the user's own list."""
    environ = {"CUDA_VISIBLE_DEVICES": value}
    try:
        made = make_plan(choose(*members), Inventory(problem=PROBLEM), environ=environ)
    except ProfileError:
        return
    assert made.cuda_visible_devices is not None
    assert set(made.cuda_visible_devices.split(",")) <= set(value.split(","))
    assert "-1" not in made.cuda_visible_devices.split(",")


def test_without_nvml_a_gpu_that_the_user_hides_is_refused() -> None:
    """The second of one, and a UUID that is not in the list, are named by nothing."""
    environ = {"CUDA_VISIBLE_DEVICES": "GPU-abc"}
    for member in (1, "GPU-b"):
        with pytest.raises(ProfileError, match="does not include"):
            make_plan(choose(member), Inventory(problem=PROBLEM), environ=environ)


def test_without_nvml_what_needs_no_figures_still_holds() -> None:
    """Growth and sizes hold for any GPU, nothing is leased; what needs figures is told of."""
    nothing = Inventory(problem=PROBLEM)
    made = make_plan(SHARED_DESKTOP, nothing, environ={})
    assert made.gpus == ()
    assert made.unknown_gpu is not None
    assert made.unknown_gpu.lease_bytes is None
    assert made.allow_growth is True
    assert made.limits_memory
    without = "without free - keep_free - context"
    assert made.notes == (f"any GPU is limited to 0.7 of its total, {without}: {PROBLEM}",)
    assert {each.fraction for each in made.unknown_gpu.limits} == {0.7}
    sized = Profile("sized", memory=MemoryRules(memory_limit=Amount(4 * GIB)))
    assert make_plan(sized, nothing, environ={}).limits_memory
    assert make_plan(sized, nothing, environ={}).notes == ()
    kept = Profile("kept", memory=sized.memory._replace(keep_free=Amount(GIB)))
    (note,) = make_plan(kept, nothing, environ={}).notes
    assert note.startswith("the limit is 4096 MiB, without free - keep_free - context: ")
    both = Profile("both", memory=kept.memory._replace(per_process_gpu_memory_fraction=0.5))
    (note,) = make_plan(both, nothing, environ={}).notes
    assert note.startswith("the limit is 4096 MiB, without fraction 0.5 × total and free - ")
    beside = Profile("beside", memory=MemoryRules(context=Amount(GIB)))
    (note,) = make_plan(beside, nothing, environ={}).notes
    assert note.startswith("no limit is set: ")
    assert make_plan(choose(0, 2), nothing, environ={}).cuda_visible_devices == "0,2"
    odd = Profile("odd", gpus=PICK_ONE, per_gpu=((0, GpuRules()),))
    notes = make_plan(odd, nothing, environ={}).notes
    assert [note.split()[0] for note in notes] == ["gpus:", "per_gpu"]


def test_gpus_none_hides_every_gpu_and_asks_nobody() -> None:
    """No driver is needed to hide GPUs."""
    profile = Profile("cpu", gpus=GpuSelection("none"))
    made = plan(profile, *FOUR)
    assert (made.gpus, made.hides_gpus, made.cuda_visible_devices) == ((), True, "-1")
    asked = []

    def read() -> Inventory:
        asked.append(1)
        return Inventory(FOUR)

    assert plan_within(profile, {}, environ={}, read=read) == made._replace(visible=())
    assert asked == []
    assert plan_within(SHARED_DESKTOP, {}, environ={}, read=read).gpus
    assert asked == [1]


@pytest.mark.parametrize(
    ("gpus", "value", "note"),
    [
        ((), None, "the driver detects no GPU; the program runs on the CPU"),
        (FOUR, "", 'CUDA_VISIBLE_DEVICES="" hides every GPU (it is empty); running on the CPU'),
        (FOUR, "-1", "(a negative index ends the list)"),
        (FOUR, "NoDevFiles", "(schedulers set it for a job without a GPU)"),
        (FOUR, "0,0", "a second time"),
        (
            (FOUR[0]._replace(mig_enabled=True),),
            None,
            "MIG is enabled, but there is no GPU instance",
        ),
    ],
)
def test_no_visible_gpu_is_a_note(gpus: tuple[Gpu, ...], value: str | None, note: str) -> None:
    """A machine or a user that shows no GPU gets the CPU, and the variable stays."""
    made = plan(SHARED_DESKTOP, *gpus, visible=value)
    assert made.hides_gpus
    assert made.gpus == ()
    assert made.cuda_visible_devices is None
    (text,) = made.notes
    assert note in text


def test_mig_instances_are_planned_as_gpus() -> None:
    """Instances have figures and UUIDs of their own; before R570 a process sees one."""
    instances = (mig_instance(1, 20000), mig_instance(2, 10000))
    cut = card(0)._replace(mig_enabled=True, mig_instances=instances)
    made = plan(SHARED_DESKTOP, cut)
    assert [gpu.limit_bytes for gpu in made.gpus] == [14000 * MIB, 7000 * MIB]
    assert made.cuda_visible_devices == ",".join(str(gpu.uuid) for gpu in instances)
    old = machine(cut)._replace(driver_version="535.1")
    assert [gpu.gpu for gpu in make_plan(SHARED_DESKTOP, old, environ={}).gpus] == [instances[0]]
    chosen = plan(choose("MIG-2"), cut)
    assert chosen.cuda_visible_devices == instances[1].uuid


def test_a_gpu_without_figures_gets_growth_a_fraction_and_a_note() -> None:
    """It degrades to what needs none, and one note says so."""
    made = plan(SHARED_DESKTOP, card(0, total=None, free=None))
    assert made.limits_memory
    assert made.gpus[0].unsized_fraction == 0.7
    assert made.allow_growth is True
    (note,) = made.notes
    assert "does not report its memory" in note
    assert plan(Profile("plain"), card(0, total=None, free=None)).notes == ()
