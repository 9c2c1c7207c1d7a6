"""The probes over real trees of files, and what they read from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import standin
from doctor_trees import (
    LINUX,
    MODULE,
    OPEN_MODULE,
    WSL,
    XID_31,
    XID_79,
    library,
    machine,
    package,
    pci_card,
    process,
    tensorflow,
)
from processes import write_package

from gpuconf.doctor.facts import System, TensorFlowBuild, TorchBuild
from gpuconf.doctor.probes.keras_choice import read_keras_choice
from gpuconf.doctor.probes.libraries import cudnn_version, read_libraries
from gpuconf.doctor.probes.packages import read_packages
from gpuconf.doctor.probes.processes import read_processes
from gpuconf.doctor.probes.system import read_system
from gpuconf.hardware import Gpu, GpuProcess, Inventory
from gpuconf.units import GIB


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
    assert read(tmp_path)._replace(mps_is_running=None) == System()


def test_cards_on_the_bus_are_nvidias_display_controllers(tmp_path: Path) -> None:
    """Not its audio device, and not another maker's card; no bus is not an empty bus."""
    audio = {key.replace(".0/", ".1/"): value.replace("0x0300", "0x0403")
             for key, value in pci_card().items()}  # fmt: skip
    other = {key.replace(":01:", ":02:"): value.replace("10de", "1002")
             for key, value in pci_card().items()}  # fmt: skip
    assert read(machine(tmp_path / "a", **pci_card(), **audio, **other)).pci_cards == (
        "0000:01:00.0",
    )
    assert read(machine(tmp_path / "b")).pci_cards == ()
    assert read(tmp_path / "c").pci_cards is None


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
    assert read(machine(tmp_path / "c", **meminfo, **unlimited)).available_bytes == 8 * GIB


def _held_by(pid: int, name: str | None) -> Inventory:
    return Inventory((Gpu(0, processes=(GpuProcess(pid, GIB, name),)),))


def test_a_process_by_its_files(tmp_path: Path) -> None:
    """Owner, state, parent and start, also with brackets and spaces in its name."""
    root = machine(tmp_path, **process(4242, "py (x) y", "T", ticks=500))
    found = read_processes(_held_by(4242, None), root=str(root))[4242]
    assert (found.name, found.state, found.parent) == ("py (x) y", "T", 1)
    assert found.started == 1700000000 + 500 / os.sysconf("SC_CLK_TCK")
    assert found.is_ours
    assert found.user


@pytest.mark.parametrize(
    ("told", "is_known"),
    [("python3", True), ("/usr/bin/python3 train.py", True), (None, True), ("Xorg", False)],
)
def test_a_stranger_of_the_same_number_is_left_out(
    told: str | None, is_known: bool, tmp_path: Path
) -> None:
    """In a container NVML's numbers are the host's; elsewhere a process has renamed itself."""
    root = str(machine(tmp_path, **process(4242, "python3")))
    inside = read_processes(_held_by(4242, told), root=root, in_container=True)
    assert (4242 in inside) == is_known
    assert 4242 in read_processes(_held_by(4242, told), root=root)


def test_our_own_process_is_found_in_the_real_proc() -> None:
    """The same on the machine that runs the test."""
    (found,) = read_processes(_held_by(os.getpid(), None), root="/").values()
    assert (found.is_ours, found.state, found.parent) == (True, "R", os.getppid())


def test_packages_are_read_and_not_imported(tmp_path: Path) -> None:
    """Names as pip writes them, the first folder rules, requirements end with the header."""
    first, second = tmp_path / "first", tmp_path / "second"
    write_package(first, {**tensorflow(), **package("tf_keras", "2.21.0", ["tensorflow<2.22"])})
    write_package(second, {**package("tf_keras", "2.15.0"), "old-1.0-py3.10.egg-info/PKG": ""})
    paths = [str(first), str(second), str(tmp_path / "missing")]
    found = read_packages(root=str(tmp_path), environ={}, paths=paths)
    assert sorted(found.installed) == ["old", "tensorflow", "tf-keras"]
    assert found.version("tf-keras") == "2.21.0"
    assert found.installed["tf-keras"].requires == ("tensorflow<2.22",)
    assert found.tensorflow is not None
    assert found.tensorflow.compute_capabilities == ("sm_80", "compute_90")
    assert [each.soname for each in found.libraries][-1] == "libcudnn.so.9"
    assert {each.path for each in found.libraries} == {None}


@pytest.mark.parametrize("source", ["", "not python (", "build_info = 3", "build_info = f()"])
def test_a_build_that_cannot_be_read_is_unknown(source: str, tmp_path: Path) -> None:
    """Whatever stands in the file."""
    write_package(tmp_path, {"tensorflow/python/platform/build_info.py": source})
    found = read_packages(root=str(tmp_path), environ={}, paths=[str(tmp_path)])
    assert found.tensorflow is None


@pytest.mark.parametrize(
    ("source", "build"),
    [
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n", TorchBuild("12.8")),
        ("cuda = None\n", TorchBuild()),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.4'\n", TorchBuild(None, "6.4")),
        ("x = 1\n", None),
    ],
)
def test_the_build_of_torch(source: str, build: TorchBuild | None, tmp_path: Path) -> None:
    """From its version.py, with and without an annotation; a build for the CPU is no unknown."""
    write_package(tmp_path, {"torch/version.py": source})
    found = read_packages(root=str(tmp_path), environ={}, paths=[str(tmp_path)])
    assert found.torch == build


def test_cuda_libraries_are_opened_where_the_loader_finds_them(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH before pip's packages; what does not open says why; cuDNN its version."""
    if standin.compiler() is None:
        pytest.skip("no C compiler for the stand-in of NVIDIA's library")
    write_package(tmp_path, {**tensorflow(), "own/libcublas.so.12": "no library"})
    library(tmp_path / "nvidia/cudnn/lib/libcudnn.so.9", cudnn="90300")
    library(tmp_path / "nvidia/cublas/lib/libcublas.so.12")
    environ = {"LD_LIBRARY_PATH": str(tmp_path / "own")}
    found = read_packages(root=str(tmp_path), environ=environ, paths=[str(tmp_path)])
    by_name = {each.name: each for each in found.libraries}
    assert by_name["cudart"].path is None
    assert by_name["cublas"].place == "LD_LIBRARY_PATH"
    assert "file too short" in (by_name["cublas"].problem or "")
    cudnn = by_name["cudnn"]
    assert (cudnn.place, cudnn.problem, cudnn.version) == ("pip", None, "9.3.0")


def test_a_library_that_prints_is_no_trouble(tmp_path: Path) -> None:
    """What it writes to stdout, before or after the child's own lines, is passed over."""
    if standin.compiler() is None:
        pytest.skip("no C compiler for the stand-in of NVIDIA's library")
    write_package(tmp_path, tensorflow())
    path = tmp_path / "nvidia/cudnn/lib/libcudnn.so.9"
    library(path, cudnn='(__builtin_puts("hello\\n3"), 90300)')
    found = read_packages(root=str(tmp_path), environ={}, paths=[str(tmp_path)]).libraries
    assert [each.version for each in found if each.path] == ["9.3.0"]


def test_conda_has_its_libraries_in_the_environment(tmp_path: Path) -> None:
    """Only where the environment is conda's: in another, TensorFlow would not look there."""
    write_package(tmp_path, {"env/lib/libcudart.so.12": "", "env/lib/libcudnn.so.9": ""})
    build = TensorFlowBuild(is_cuda=True, cuda_version="12.5.1", cudnn_version="9")

    def places() -> set[str | None]:
        root, prefix = str(tmp_path), str(tmp_path / "env")
        found = read_libraries(build, root=root, environ={}, packages=(), prefix=prefix)
        return {each.place for each in found if each.name in ("cudart", "cudnn")}

    assert places() == {None}
    (tmp_path / "env/conda-meta").mkdir()
    assert places() == {"conda"}


def test_a_library_that_ends_the_process_is_a_finding_of_its_own(tmp_path: Path) -> None:
    """The doctor lives on, and names the library at which its child died."""
    if standin.compiler() is None:
        pytest.skip("no C compiler for the stand-in of NVIDIA's library")
    write_package(tmp_path, tensorflow())
    library(tmp_path / "nvidia/cuda_runtime/lib/libcudart.so.12")
    library(tmp_path / "nvidia/cudnn/lib/libcudnn.so.9", cudnn="*(volatile int *)8")
    found = read_packages(root=str(tmp_path), environ={}, paths=[str(tmp_path)]).libraries
    problems = {each.name: each.problem for each in found if each.path}
    assert problems["cudart"] is None
    assert "it ended the process (-" in (problems["cudnn"] or "")


@pytest.mark.parametrize(
    ("number", "text"), [(8907, "8.9.7"), (90300, "9.3.0"), (91002, "9.10.2"), (None, None)]
)
def test_cudnns_number_as_text(number: int | None, text: str | None) -> None:
    """cuDNN 9 counts otherwise than 8."""
    assert cudnn_version(number) == text


@pytest.mark.parametrize(
    ("environ", "config", "backend", "set_by"),
    [
        ({}, None, "tensorflow", "Keras's default"),
        ({"KERAS_BACKEND": "jax"}, '{"backend": "torch"}', "jax", "KERAS_BACKEND"),
        ({"KERAS_BACKEND": ""}, '{"backend": "torch"}', "torch", "keras.json"),
        ({}, '{"floatx": "float32"}', "tensorflow", "Keras's default"),
        ({}, "{", "tensorflow", "keras.json"),
        ({}, "[]", "tensorflow", "keras.json"),
    ],
)
def test_who_sets_the_keras_backend(
    environ: dict[str, str], config: str | None, backend: str, set_by: str, tmp_path: Path
) -> None:
    """A variable that is not empty, else the file, else nobody; a broken file is told."""
    if config is not None:
        write_package(tmp_path, {".keras/keras.json": config})
    for home in ({"HOME": str(tmp_path)}, {"HOME": "/", "KERAS_HOME": str(tmp_path / ".keras")}):
        found = read_keras_choice({**environ, **home})
        assert (found.backend, os.path.basename(found.set_by)) == (backend, set_by)
        assert bool(found.problem) == (config in ("{", "[]"))
