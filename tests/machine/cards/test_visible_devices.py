"""CUDA_VISIBLE_DEVICES in all its spellings, and the way back; the facts' sources are cited in
gpuconf/machine/cards/visible_devices.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.machine.cards.inventory import Gpu
from gpuconf.machine.cards.visible_devices import (
    VisibleDevices,
    match_uuid,
    narrow,
    needs_pci_order,
    resolve,
    visible_devices_value,
)
from tests.machine.cards.spellings import SPELLINGS

# Four GPUs of one kind; the first two UUIDs begin alike.
CARDS = tuple(
    Gpu(index, uuid=uuid, name="NVIDIA A30", compute_capability=(8, 0))
    for index, uuid in enumerate(
        (
            "GPU-8f6c2a10-0000-4000-8000-000000000000",
            "GPU-8f6c9b31-0000-4000-8000-000000000001",
            "GPU-18ef14e9-0000-4000-8000-000000000002",
            "GPU-a1b2c3d4-0000-4000-8000-000000000003",
        )
    )
)
UNEQUAL = (CARDS[0], CARDS[1]._replace(name="NVIDIA T400", compute_capability=(7, 5)))

# A GPU cut in three (two compute instances share GPU instance 5), a whole one, an empty one.
PARTS = tuple(
    Gpu(0, uuid=f"MIG-{letter}41c6d4-0000-5000-8000-000000000000", mig_ids=ids)
    for letter, ids in (("c", (1, 0)), ("d", (5, 0)), ("e", (5, 1)))
)
CUT = CARDS[0]._replace(mig_enabled=True, mig_instances=PARTS)
WHOLE = CARDS[1]
EMPTY = CARDS[2]._replace(mig_enabled=True)


def test_spellings() -> None:
    """Each spelling shows these of four equal GPUs, in this order."""
    for value, expected in (*SPELLINGS["four GPUs"], ["9" * 5000, []], ["0" * 5000, [0]]):
        assert [gpu.index for gpu in resolve(value, CARDS).devices] == expected, value


@pytest.mark.parametrize(
    ("group", "version"), [("mig", "570.86.15"), ("mig before r570", "550.54.15")]
)
def test_spellings_with_mig(group: str, version: str) -> None:
    """Since R570 a process sees one compute instance of each GPU instance, and whole GPUs.

    Older drivers show a process one MIG instance, and then no whole GPU.
    """
    for value, expected in SPELLINGS[group]:
        seen = resolve(value, (CUT, WHOLE, EMPTY), driver_version=version)
        assert [_letter(device) for device in seen.devices] == expected, value


def _letter(device: Gpu) -> str:
    return "whole" if device.mig_ids is None else (device.uuid or "")[4]


def test_what_is_ignored_says_why() -> None:
    """The first ignored entry bears its own reason."""
    for value, entry, words in SPELLINGS["ignored"]:
        seen = resolve(value, CARDS)
        assert seen.ignored[0][0] == entry, value
        assert words in seen.ignored[0][1], value


@pytest.mark.parametrize(
    ("value", "gpus", "device_order", "certain"),
    [
        ("1", CARDS, None, True),
        ("1", UNEQUAL, None, False),
        ("1", UNEQUAL, "FASTEST_FIRST", False),
        ("1", UNEQUAL, "pci_bus_id", False),
        ("1", UNEQUAL, "PCI_BUS_ID", True),
        (None, UNEQUAL, None, False),
        (None, UNEQUAL, "PCI_BUS_ID", True),
        ("GPU-8f6c9b", UNEQUAL, None, True),
        ("", UNEQUAL, None, True),
        ("0", UNEQUAL[:1], None, True),
        ("0", (Gpu(0),), None, True),
        ("0", (Gpu(0), Gpu(1)), None, False),
        (None, (), None, True),
        ("0", (CUT, WHOLE), "PCI_BUS_ID", False),
        ("MIG-d", (CUT, WHOLE), None, True),
    ],
)
def test_certainty(
    value: str | None, gpus: tuple[Gpu, ...], device_order: str | None, certain: bool
) -> None:
    """An index is certain among equal GPUs or in PCI order; a UUID always is."""
    seen = resolve(value, gpus, device_order=device_order)
    assert seen.order_certain is certain


@pytest.mark.parametrize("driver_version", [None, "", "unknown", "570", "999999999999.1"])
def test_an_unknown_driver_counts_as_new(driver_version: str | None) -> None:
    """Only a driver known to be older than R570 is held to one MIG instance."""
    seen = resolve(None, (CUT,), driver_version=driver_version)
    assert [_letter(device) for device in seen.devices] == ["c", "d"]


def test_the_value_is_of_uuids() -> None:
    """UUIDs name the GPUs whatever the order; no device is -1, which CUDA takes as none."""
    assert visible_devices_value([CARDS[2], PARTS[0]]) == f"{CARDS[2].uuid},{PARTS[0].uuid}"
    assert visible_devices_value([]) == "-1"
    assert not needs_pci_order([CARDS[2]])
    assert not needs_pci_order([])


def test_an_unknown_uuid_makes_indices_of_all() -> None:
    """CUDA takes no list of both kinds, so one unknown UUID makes all of them indices."""
    devices = [CARDS[2], Gpu(0)]
    assert visible_devices_value(devices) == "2,0"
    assert needs_pci_order(devices)


def test_match_uuid_tells_unknown_from_ambiguous() -> None:
    """None, one, or several: and a UUID in full is never ambiguous."""
    short, long = Gpu(0, uuid="GPU-ab"), Gpu(1, uuid="GPU-abc")
    assert match_uuid("GPU-b", (short, long)) == ()
    assert match_uuid("GPU-a", (short, long)) == (short, long)
    assert match_uuid("GPU-ab", (short, long)) == (short,)
    assert match_uuid("MIG-d", (CUT, WHOLE)) == (PARTS[1],)


def test_narrow_keeps_uncertain_entries_as_written() -> None:
    """Where index 1 may be another GPU, a UUID might open the GPU of somebody else."""
    assert narrow(resolve("1", UNEQUAL), UNEQUAL) == "1"
    assert narrow(resolve("1,0", UNEQUAL), UNEQUAL[:1]) == "0"
    assert narrow(resolve("1", UNEQUAL), UNEQUAL[:1]) == "-1"
    assert narrow(resolve(None, UNEQUAL), UNEQUAL[:1]) == UNEQUAL[0].uuid
    nameless = [gpu._replace(uuid=None) for gpu in CARDS]
    assert narrow(resolve(" 03,1", nameless), nameless[2:]) == " 03"


# Machines of up to five devices with few letters, so that prefixes collide.
@st.composite
def _machines(draw: st.DrawFn) -> tuple[Gpu, ...]:
    names = draw(st.lists(st.text("ab", min_size=1, max_size=4), unique=True, max_size=5))
    gpus = []
    for index, name in enumerate(names):
        gpu = Gpu(index, uuid=f"GPU-{name}", name=draw(st.sampled_from(["x", "y", None])))
        if draw(st.booleans()):
            count = draw(st.integers(0, 3))
            parts = tuple(
                Gpu(index, uuid=f"MIG-{name}-{place}", mig_ids=(place // 2, place % 2))
                for place in range(count)
            )
            gpu = gpu._replace(mig_enabled=True, mig_instances=parts)
        gpus.append(gpu)
    return tuple(gpus)


_ENTRIES = st.one_of(
    st.integers(-2, 6).map(str),
    st.text("ab", max_size=4).map("GPU-{}".format),
    st.builds("MIG-{}-{}".format, st.text("ab", max_size=4), st.integers(0, 3)),
    st.text(max_size=8),
)
_VALUES = st.one_of(st.none(), st.text(), st.lists(_ENTRIES, max_size=6).map(",".join))
_ORDERS = st.sampled_from([None, "PCI_BUS_ID", "FASTEST_FIRST"])
_DRIVERS = st.one_of(st.sampled_from([None, "550.1", "570.1"]), st.text(max_size=5))


def _names(seen: VisibleDevices) -> list[str | None]:
    return [device.uuid for device in seen.devices]


@given(_VALUES, _machines(), _ORDERS, _DRIVERS)
def test_any_text_is_taken(
    value: str | None, gpus: tuple[Gpu, ...], order: str | None, driver: str | None
) -> None:
    """Nothing raises; what is seen is the machine's own, each device once, none unnamed."""
    seen = resolve(value, gpus, device_order=order, driver_version=driver)
    everything = {part.uuid for gpu in gpus for part in (gpu, *gpu.mig_instances)}
    assert set(_names(seen)) <= everything
    assert len(set(_names(seen))) == len(seen.devices)
    assert len(seen.entries) == (0 if value is None else len(seen.devices))
    if value:
        assert len(seen.entries) + len(seen.ignored) == len(value.split(","))


@given(_VALUES, _machines(), _DRIVERS)
def test_the_value_leads_back(value: str | None, gpus: tuple[Gpu, ...], driver: str | None) -> None:
    """What is written for the devices seen shows those devices again, in that order."""
    seen = resolve(value, gpus, driver_version=driver)
    again = resolve(visible_devices_value(seen.devices), gpus, driver_version=driver)
    assert again.devices == seen.devices
    assert again.order_certain


@given(_VALUES, _machines(), st.permutations(range(5)), st.integers(0, 5), _DRIVERS)
def test_narrow_never_widens(
    value: str | None, gpus: tuple[Gpu, ...], order: list[int], count: int, driver: str | None
) -> None:
    """What is left is what CUDA shows of the GPUs that are wanted, in the order of the value.

    They are wanted in any order, and known again after their memory has changed; of a GPU that MIG
    cuts up its instances are left.
    """
    seen = resolve(value, gpus, driver_version=driver)
    wanted = [index for index in order[:count] if index < len(gpus)]
    left = narrow(seen, [gpus[index]._replace(free_bytes=5) for index in wanted])
    devices = tuple(device for device in seen.devices if device.index in wanted)
    assert resolve(left, gpus, driver_version=driver).devices == devices
    assert left == visible_devices_value(devices) or not seen.order_certain
