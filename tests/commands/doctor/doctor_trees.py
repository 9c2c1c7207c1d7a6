"""File trees as the doctor's probes find them: /proc, /dev, /sys, and folders of packages."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.doctor.facts import Interpreter
from tests.machine.cards import standin
from tests.programs.processes import write_package

MODULE = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n"
    "GCC version:  gcc version 12.2.0\n"
)
OPEN_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
WSL = "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@x) (gcc 11.2.0) #1 SMP\n"
LINUX = "Linux version 6.8.0-40-generic (buildd@x) (gcc 13.2.0) #40-Ubuntu SMP\n"
XID_79 = "kernel: NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', GPU has fallen off the bus."
XID_31 = "kernel: NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python3, Ch 00000008, MMU Fault"
FULL_CARD = standin.Machine(
    (standin.Card(standin.uuid(0), total=8 * GIB, reserved=0, used=8 * GIB - 160 * MIB),)
)


def python_with(*folders: str) -> Interpreter:
    """A Python that looks for packages in these folders."""
    return Interpreter("/usr/bin/python3", (3, 11, 7), "/usr", paths=folders)


def machine(folder: Path, **files: str) -> Path:
    """A tree with a PCI bus, and ``files`` by path with ``__`` for ``/``; return its root."""
    tree = {"/proc/version": LINUX, "/proc/stat": "cpu 1 2\nbtime 1700000000\n", **named(files)}
    (folder / "sys/bus/pci/devices").mkdir(parents=True)
    write_package(folder, {path.lstrip("/"): text for path, text in tree.items()})
    return folder


def named(files: Mapping[str, str]) -> dict[str, str]:
    """The files under their paths."""
    return {name if name.startswith("/") else f"/{name.replace('__', '/')}": text
            for name, text in files.items()}  # fmt: skip


def pci_card(address: str = "0000:01:00.0") -> dict[str, str]:
    """An NVIDIA GPU on the bus."""
    device = f"/sys/bus/pci/devices/{address}"
    return {f"{device}/vendor": "0x10de\n", f"{device}/class": "0x030000\n"}


def process(pid: int, name: str, state: str = "S", *, ticks: int = 6000) -> dict[str, str]:
    """A process in /proc."""
    others = " ".join("7" * 17)  # the fields 5 to 21
    stat = f"{pid} ({name}) {state} 1 {others} {ticks} 8 9\n"
    return {f"/proc/{pid}/stat": stat, f"/proc/{pid}/cmdline": f"{name}\0train.py\0"}


def package(name: str, version: str, requires: Sequence[str] = ()) -> dict[str, str]:
    """An installed distribution."""
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    return {f"{name}-{version}.dist-info/METADATA": "\n".join(lines) + "\n\nRequires-Dist: no\n"}


def tensorflow(version: str = "2.21.0", *, is_cuda: bool = True) -> dict[str, str]:
    """A TensorFlow that tells how it was built, and cannot be imported."""
    info = (
        f"[('cuda_compute_capabilities', ['sm_80', 'compute_90']), ('cuda_version', '12.5.1'), "
        f"('cudnn_version', '9'), ('is_cuda_build', {is_cuda}), ('is_rocm_build', False)]"
    )
    source = f"import collections\nbuild_info = collections.OrderedDict({info})\n"
    return {
        "tensorflow/__init__.py": "raise AssertionError('the doctor imports TensorFlow')\n",
        "tensorflow/python/platform/build_info.py": source,
        **package("tensorflow", version),
    }


def library(path: Path, *, cudnn: str = "0") -> None:
    """Compile a shared library that opens, and tells ``cudnn``, an expression, as its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = f"unsigned long cudnnGetVersion(void) {{ return {cudnn}; }}"
    command = [standin.compiler() or "cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=body, text=True, check=True)
