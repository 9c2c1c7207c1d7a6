"""Which card the demo takes: the caller's own, and nobody else's memory."""

from __future__ import annotations

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.demo.card_choice import choose_card
from gpuconf.machine.cards import CardLease, Gpu, GpuProcess, Inventory


def _gpu(index: int, **facts: object) -> Gpu:
    """An idle card, but for ``facts``."""
    uuid = f"GPU-{index}e8d35e3-0000"
    idle = Gpu(index, uuid, "a card", 8 * GIB, 8 * GIB, 0, (8, 6), processes=())
    return idle._replace(**facts)  # type: ignore[arg-type]


ALIKE = tuple(_gpu(index) for index in range(4))
UNEQUAL = (_gpu(0, name="T400", compute_capability=(7, 5)), _gpu(1))
TRAINING = GpuProcess(4242, GIB, "python3")
DESKTOP = GpuProcess(900, GIB, "Xorg", "graphics")
MIG = Gpu(0, mig_enabled=True, uuid="GPU-0", mig_instances=(_gpu(0, uuid=None, mig_ids=(1, 0)),))


@pytest.mark.parametrize(
    ("gpus", "environ", "index"),
    [
        (ALIKE, {}, 0),
        (ALIKE, {"CUDA_VISIBLE_DEVICES": "3"}, 3),
        (ALIKE, {"CUDA_VISIBLE_DEVICES": "2,0"}, 2),
        (ALIKE, {"CUDA_VISIBLE_DEVICES": "GPU-1e8d"}, 1),
        (ALIKE, {"CUDA_VISIBLE_DEVICES": ""}, None),
        (ALIKE, {"CUDA_VISIBLE_DEVICES": "-1"}, None),
        (ALIKE, {"CUDA_VISIBLE_DEVICES": "7"}, None),
        ((), {}, None),
        (UNEQUAL, {}, 0),
        (UNEQUAL, {"CUDA_VISIBLE_DEVICES": "1"}, None),  # which of them, only CUDA knows
        (UNEQUAL, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, 1),
        (UNEQUAL, {"CUDA_VISIBLE_DEVICES": "GPU-1"}, 1),
        ((MIG,), {}, None),
    ],
)
def test_the_first_gpu_that_the_caller_sees(
    gpus: tuple[Gpu, ...], environ: dict[str, str], index: int | None
) -> None:
    """That GPU and no other is shown, by its UUID; where none is sure, the simulated card."""
    for even_if_used in (False, True):
        choice = choose_card(Inventory(gpus), environ, even_if_used=even_if_used)
        assert (choice.gpu and choice.gpu.index) == index
        assert choice.because
        expected = {} if index is None else {"CUDA_VISIBLE_DEVICES": f"GPU-{index}e8d35e3-0000"}
        assert choice.variables == expected


@pytest.mark.parametrize(
    ("facts", "because"),
    [
        ({}, ""),
        ({"used_bytes": 100 * MIB}, ""),
        ({"processes": (DESKTOP,), "used_bytes": GIB}, ""),
        ({"processes": (DESKTOP, TRAINING), "used_bytes": 2 * GIB}, "python3 (4242) holds memory"),
        ({"processes": (TRAINING,), "used_bytes": 0}, "python3 (4242) holds memory"),
        (
            {"used_bytes": 2 * GIB},
            "2048 MiB are in use, and the driver lists no program",
        ),
        ({"processes": None, "used_bytes": 2 * GIB}, "the driver lists no program"),
        ({"processes": None}, ""),
        ({"leases": (CardLease(7, GIB, 0, "train.py"),)}, "train.py (7) leases memory"),
        ({"processes": None, "used_bytes": None}, "does not say how much"),
    ],
)
def test_memory_of_others_is_left_alone(facts: dict[str, object], because: str) -> None:
    """A card on which others compute, or may unseen, is used only if that is asked for."""
    gpu = _gpu(0, **facts)
    choice = choose_card(Inventory((gpu,)), {})
    assert choice.gpu == (None if because else gpu)
    assert because in choice.because
    assert ("--real" in choice.because) == bool(because)
    assert choose_card(Inventory((gpu,)), {}, even_if_used=True).gpu == gpu


def test_another_gpu_is_no_way_out() -> None:
    """Where the caller's own GPU is used, an idle one that it does not see is not taken."""
    gpus = (_gpu(0), _gpu(1, processes=(TRAINING,)))
    assert choose_card(Inventory(gpus), {"CUDA_VISIBLE_DEVICES": "1"}).gpu is None


def test_without_a_uuid_the_index_counts_as_nvidia_smi_does() -> None:
    """An index means this card only in PCI order, so CUDA is told to count so."""
    choice = choose_card(Inventory((_gpu(0, uuid=None),)), {})
    assert choice.variables == {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_a_machine_without_a_driver() -> None:
    """What is the matter with NVML is passed on."""
    assert choose_card(Inventory(problem="no driver"), {}).because == "no driver"
