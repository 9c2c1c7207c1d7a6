"""What files say of limits: a control group's dmem."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.machine.cards.dmem import with_dmem
from gpuconf.machine.cards.inventory import Cap, Gpu, Inventory
from tests.programs.processes import write_package

CARD = Gpu(0, "GPU-1", pci_bus_id="00000000:3B:00.0")
OTHER = Gpu(1, "GPU-2", pci_bus_id="00000000:AF:00.0")


def caps(root: Path) -> list[tuple[Cap, ...]]:
    """The caps of the two GPUs."""
    return [gpu.caps for gpu in with_dmem(Inventory((CARD, OTHER)), str(root)).gpus]


def group(
    folder: str, limit: str, current: str, region: str = "nvidia/0000:3b:00.0/vidmem"
) -> dict[str, str]:
    """The files of a group with one region."""
    return {
        f"sys/fs/cgroup/{folder}dmem.max": f"{region} {limit}\n",
        f"sys/fs/cgroup/{folder}dmem.current": f"{region} {current}\n",
    }


@pytest.mark.parametrize(
    "region", ["nvidia/0000:3b:00.0/vidmem", "drm/0000:3b:00.0/vram0", "drm/0000:3B:00.0/vram"]
)
def test_a_groups_limit_is_on_the_card_that_its_region_names(tmp_path: Path, region: str) -> None:
    """By the PCI address, whose domain NVML writes longer."""
    own = {"proc/self/cgroup": "0::/user.slice/job\n"}
    write_package(tmp_path, own | group("user.slice/job/", str(4 * GIB), str(GIB), region))
    assert caps(tmp_path) == [(Cap("dmem.max", 4 * GIB, GIB),), ()]


def test_the_groups_above_count_too(tmp_path: Path) -> None:
    """A limit of the slice holds for the job in it; "max" is none."""
    files = group("a.slice/job/", "max", "5") | group("a.slice/", str(2 * GIB), str(MIB))
    write_package(tmp_path, {"proc/self/cgroup": "1:name=systemd:/x\n0::/a.slice/job\n"} | files)
    assert caps(tmp_path) == [(Cap("dmem.max", 2 * GIB, MIB),), ()]


@pytest.mark.parametrize("own", ["0::/\n", "0::/../other\n", ""])
def test_a_container_sees_its_own_group_at_the_mount(tmp_path: Path, own: str) -> None:
    """With a namespace of its own, or where the path leads out of it."""
    write_package(tmp_path, {"proc/self/cgroup": own} | group("", str(GIB), "0"))
    assert caps(tmp_path) == [(Cap("dmem.max", GIB, 0),), ()]


def test_what_is_no_memory_of_a_card_is_passed_over(tmp_path: Path) -> None:
    """Regions of other kinds, lines without a figure, files that cannot be read."""
    lines = "drm/0000:3b:00.0/stolen 5\nnvidia/0000:3b:00.0/vidmem much\n\nvidmem 7\n"
    lines += "drm/0000:3b:00.0/vram0 " + "9" * 5000
    write_package(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/dmem.max": lines})
    assert caps(tmp_path) == [(), ()]
    assert caps(tmp_path / "nothing") == [(), ()]


def test_a_mig_instance_has_its_cards_limit(tmp_path: Path) -> None:
    """The region is the GPU's; a use that cannot be read counts as none."""
    write_package(tmp_path, {"proc/self/cgroup": "0::/\n"} | group("", str(GIB), "unknown"))
    instance = CARD._replace(uuid="MIG-1", mig_ids=(1, 0))
    card = CARD._replace(mig_enabled=True, mig_instances=(instance,))
    (found,) = with_dmem(Inventory((card,)), str(tmp_path)).gpus
    assert found.mig_instances[0].caps == (Cap("dmem.max", GIB, 0),)
