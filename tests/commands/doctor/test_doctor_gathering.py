"""The doctor's readers of facts, over real trees of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.basics.units import GIB
from gpuconf.commands.doctor.facts import System
from gpuconf.commands.doctor.gathering.system import read_system
from gpuconf.machine.host_memory import total_bytes
from tests.commands.doctor.doctor_trees import (
    LINUX,
    MODULE,
    OPEN_MODULE,
    WSL,
    XID_31,
    XID_79,
    machine,
    pci_card,
)
from tests.programs.processes import write_package


def read(root: Path, **environ: str) -> System:
    """The system below ``root``."""
    return read_system(root=str(root), environ=environ)


@pytest.mark.parametrize(
    ("text", "version"), [(MODULE, "535.54.03"), (OPEN_MODULE, "570.86.15"), ("rubbish", None)]
)
def test_the_kernel_modules_version(text: str, version: str | None, tmp_path: Path) -> None:
    """Both of NVIDIA's modules tell it, in words of their own."""
    found = read(machine(tmp_path, proc__driver__nvidia__version=text))
    assert found.module_version == version


def test_the_librarys_version_is_in_its_files_name(tmp_path: Path) -> None:
    """libnvidia-ml.so.1 is a link, found as the loader would: through /etc/ld.so.cache."""
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    cache = "\0".join(["glibc-ld.so.cache1.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", ""])
    root = machine(tmp_path, **{"/etc/ld.so.cache": cache})
    write_package(folder, {"libnvidia-ml.so.550.90.07": "", "other": ""})
    (folder / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.550.90.07")
    assert read(root).library_version == "550.90.07"
    assert read(root, LD_LIBRARY_PATH=f"/nowhere::{folder}").library_version == "550.90.07"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\n',
         ("linuxmint", "ubuntu", "debian")),
        ("ID=debian\nVERSION_ID='12'\n", ("debian",)),
        ("rubbish", ()),
    ],
)  # fmt: skip
def test_the_distribution(text: str, names: tuple[str, ...], tmp_path: Path) -> None:
    """What it is and what it is like, with quotation marks or without."""
    root = machine(tmp_path, **{"/etc/os-release": text})
    assert read(root).distributions == names


def test_an_empty_machine_is_unknown(tmp_path: Path) -> None:
    """Nothing is there to read, and nothing is made up."""
    assert read(tmp_path) == System()


def test_cards_on_the_bus_are_nvidias_display_controllers(tmp_path: Path) -> None:
    """Not its audio device, and not another maker's GPU; no bus is not an empty bus."""
    audio = {key.replace(".0/", ".1/"): value.replace("0x0300", "0x0403")
             for key, value in pci_card().items()}  # fmt: skip
    other = {key.replace(":01:", ":02:"): value.replace("10de", "1002")
             for key, value in pci_card().items()}  # fmt: skip
    assert read(machine(tmp_path / "a", **pci_card(), **audio, **other)).pci_cards == (
        "0000:01:00.0",
    )
    assert read(machine(tmp_path / "b")).pci_cards == ()
    assert read(tmp_path / "c").pci_cards is None


AMD_CARD = {path: text.replace("10de", "1002") for path, text in pci_card().items()}


@pytest.mark.parametrize(
    ("files", "platform", "other"),
    [
        ({"/dev/kfd": ""}, "linux", "an AMD GPU"),
        (AMD_CARD, "linux", "an AMD GPU"),
        ({"/etc/nv_tegra_release": "# R35 (release)\n"}, "linux", "the GPU of a Jetson"),
        ({"/proc/version": "Linux version 5.10.120-tegra (x@y)\n"}, "linux", "the GPU of a Jetson"),
        ({}, "darwin", "the GPU of a Mac"),
        (pci_card(), "linux", None),
        ({}, "linux", None),
    ],
)
def test_a_gpu_that_nvml_does_not_know(
    files: dict[str, str], platform: str, other: str | None, tmp_path: Path
) -> None:
    """AMD's by its driver's interface or on the bus, a Jetson by its release file or its kernel."""
    root = str(machine(tmp_path, **files))
    assert read_system(root=root, environ={}, platform=platform).other_gpu == other


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/run/.containerenv": ""}, {}, "podman"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/proc/1/cgroup": "0::/kubepods/besteffort/pod1\n"}, {}, "kubepods"),
        ({}, {"container": "lxc"}, "lxc"),
        ({"/proc/1/cgroup": "0::/init.scope\n"}, {}, None),
    ],
)
def test_a_container_by_its_marks(
    files: dict[str, str], environ: dict[str, str], kind: str | None, tmp_path: Path
) -> None:
    """Each kind leaves its own."""
    assert read(machine(tmp_path, **files), **environ).container == kind


def test_wsl_by_its_kernel_and_device(tmp_path: Path) -> None:
    """The kernel's name, the device, and the driver that Windows brings."""
    files = {"/proc/version": WSL, "/dev/dxg": "", "/usr/lib/wsl/lib/libcuda.so.1": ""}
    found = read(machine(tmp_path / "a", **files))
    assert (found.is_wsl, found.has_dxg, found.has_wsl_library) == (True, True, True)
    assert not read(machine(tmp_path / "b")).is_wsl


def test_device_files_with_mode_and_group(tmp_path: Path) -> None:
    """Each file, not the folder nvidia-caps, and a link that leads nowhere may not be opened."""
    root = machine(tmp_path, dev__nvidia0="", **{"/dev/nvidia-caps/cap1": ""})
    (root / "dev/nvidia1").symlink_to("nowhere")
    first, second = read(root).nodes
    assert (first.path, first.mode[0], first.may_open) == ("/dev/nvidia0", "-", True)
    assert (second.path, second.may_open) == ("/dev/nvidia1", False)


def test_xids_count_from_the_last_start(tmp_path: Path) -> None:
    """Those of an earlier start are past; a log that cannot be read is unknown."""
    log = f"kernel: {LINUX}{XID_31}\nkernel: {LINUX}kernel: other\n{XID_79}\n"
    found = read(machine(tmp_path / "a", var__log__syslog=log)).xids
    assert found is not None
    assert [(xid.number, xid.pci_bus_id) for xid in found] == [(79, "0000:01:00")]
    assert read(machine(tmp_path / "b")).xids is None


def test_host_memory_is_what_the_control_group_leaves(tmp_path: Path) -> None:
    """The smaller of what is available and of what the group may still take."""
    meminfo = {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    8388608 kB\n"}
    group = "/sys/fs/cgroup/memory"
    limited = {f"{group}.max": f"{4 * GIB}\n", f"{group}.current": f"{GIB}\n"}
    unlimited = {f"{group}.max": "max\n", f"{group}.current": f"{GIB}\n"}
    assert read(machine(tmp_path / "a", **meminfo)).available_bytes == 8 * GIB
    assert read(machine(tmp_path / "b", **meminfo, **limited)).available_bytes == 3 * GIB
    cached = {"/sys/fs/cgroup/memory.stat": f"anon 9\ninactive_file {GIB}\n"}
    assert read(machine(tmp_path / "d", **meminfo, **limited, **cached)).available_bytes == 4 * GIB
    assert read(machine(tmp_path / "c", **meminfo, **unlimited)).available_bytes == 8 * GIB
    (tmp_path / "b/proc/meminfo").write_text("MemTotal:    8388608 kB\n", encoding="ascii")
    assert total_bytes(str(tmp_path / "b")) == 4 * GIB
