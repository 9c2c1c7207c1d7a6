"""The machine below the frameworks: kernel module, device files, container, WSL, memory."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping

from gpuconf.commands.doctor.facts import DeviceNode, System, Xid
from gpuconf.commands.doctor.gathering.files import names_in, read_text, under
from gpuconf.commands.doctor.gathering.libraries import find_library
from gpuconf.machine.host_memory import available_bytes

# "NVIDIA UNIX x86_64 Kernel Module  535.54.03  …", and for the open one "NVIDIA UNIX Open Kernel
# Module for x86_64  570.86.15  …".
_MODULE = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)")
_LIBRARY = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)?)$")
_NVIDIA, _AMD = "0x10de", "0x1002"
_DISTRIBUTION = re.compile(r"""^(ID|ID_LIKE)=["']?([^"'\n]*)""", re.MULTILINE)
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA controller, 3D controller
_CONTAINERS = ("docker", "kubepods", "containerd", "libpod", "lxc", "garden")
_LOGS = ("/var/log/kern.log", "/var/log/syslog", "/var/log/messages", "/var/log/dmesg")
_LAST_BYTES = 256 * 1024
_BOOT = "Linux version "
# NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+)")


def read_system(*, root: str, environ: Mapping[str, str], platform: str = sys.platform) -> System:
    """Gather the facts that are in files."""
    kernel = read_text(under(root, "/proc/version")) or ""
    shm_bytes, shm_free_bytes = _shared_memory(root)
    return System(
        module_version=_found(_MODULE, read_text(under(root, "/proc/driver/nvidia/version"))),
        library_version=_library_version(root, environ),
        distributions=_distributions(root),
        pci_cards=_pci_cards(root, _NVIDIA),
        other_gpu=_other_gpu(root, kernel, platform),
        nouveau=os.path.isdir(under(root, "/sys/module/nouveau")),
        nodes=_nodes(root),
        has_modprobe=os.path.exists(under(root, "/usr/bin/nvidia-modprobe")),
        container=_container(root, environ),
        is_wsl="microsoft" in kernel.lower(),
        is_windows=platform == "win32",
        has_dxg=os.path.exists(under(root, "/dev/dxg")),
        has_wsl_library=os.path.exists(under(root, "/usr/lib/wsl/lib/libcuda.so.1")),
        xids=read_xids(root),
        available_bytes=available_bytes(root),
        shm_bytes=shm_bytes,
        shm_free_bytes=shm_free_bytes,
    )


def _found(pattern: re.Pattern[str], text: str | None) -> str | None:
    match = pattern.search(text or "")
    return match[1] if match else None


def _library_version(root: str, environ: Mapping[str, str]) -> str | None:
    """The version in the name of the file that libnvidia-ml.so.1 links to."""
    found = find_library("libnvidia-ml.so.1", root=root, environ=environ)
    return _found(_LIBRARY, os.path.realpath(found.path)) if found else None


def _distributions(root: str) -> tuple[str, ...]:
    """From os-release(5), its own ID first, then ID_LIKE: ``linuxmint``, ``ubuntu``, ``debian``."""
    text = read_text(under(root, "/etc/os-release")) or ""
    found = dict(_DISTRIBUTION.findall(text))
    return tuple(f"{found.get('ID', '')} {found.get('ID_LIKE', '')}".split())


def _other_gpu(root: str, kernel: str, platform: str) -> str | None:
    """/etc/nv_tegra_release is on every Jetson; the kernel name is seen in containers too."""
    if platform == "darwin":
        return "the GPU of a Mac"
    if "tegra" in kernel or os.path.exists(under(root, "/etc/nv_tegra_release")):
        return "the GPU of a Jetson"
    # /dev/kfd is amdgpu's interface for ROCm, also for accelerators without a display.
    is_amd = os.path.exists(under(root, "/dev/kfd")) or _pci_cards(root, _AMD)
    return "an AMD GPU" if is_amd else None


def _pci_cards(root: str, vendor: str) -> tuple[str, ...] | None:
    folder = under(root, "/sys/bus/pci/devices")
    if not os.path.isdir(folder):
        return None
    found = []
    for name in names_in(folder):
        device = os.path.join(folder, name)
        if (read_text(os.path.join(device, "vendor")) or "").strip() == vendor:
            kind = (read_text(os.path.join(device, "class")) or "")[:6]
            if kind in _DISPLAY_CLASSES:
                found.append(name)
    return tuple(found)


def _nodes(root: str) -> tuple[DeviceNode, ...]:
    folder = under(root, "/dev")
    names = [name for name in names_in(folder) if name.startswith("nvidia")]
    paths = [os.path.join(folder, name) for name in names]
    return tuple(_node(path) for path in paths if not os.path.isdir(path))


def _node(path: str) -> DeviceNode:
    shown = f"/dev/{os.path.basename(path)}"
    try:
        status = os.stat(path)
    except OSError:
        return DeviceNode(shown, may_open=False)
    may_open = os.access(path, os.R_OK | os.W_OK)
    return DeviceNode(shown, stat.filemode(status.st_mode), _group(status.st_gid), may_open)


def _group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _container(root: str, environ: Mapping[str, str]) -> str | None:
    """The kind of container, recognized by typical files; None outside containers."""
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    if os.path.exists(under(root, "/run/.containerenv")):
        return "podman"
    if os.path.exists(under(root, "/.dockerenv")):
        return "docker"
    if environ.get("container"):  # systemd's convention, followed by lxc, nspawn and podman
        return environ["container"]
    groups = read_text(under(root, "/proc/1/cgroup")) or ""
    return next((kind for kind in _CONTAINERS if kind in groups), None)


def _shared_memory(root: str) -> tuple[int | None, int | None]:
    """The size and the free bytes of /dev/shm."""
    try:
        found = os.statvfs(under(root, "/dev/shm"))
    except (AttributeError, OSError):  # Windows has no statvfs
        return None, None
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def read_xids(root: str) -> tuple[Xid, ...] | None:
    """The Xids since boot, oldest first; None if no log is readable.

    The driver writes an Xid to the kernel log if a GPU or a program fails; NVML reports them only
    to a process that is listening. On Debian and Ubuntu, the group adm, which includes the first
    user, can read the log; elsewhere, only root can.
    """
    for path in _LOGS:
        text = read_text(under(root, path), last_bytes=_LAST_BYTES)
        if text is not None:
            return find_xids(text)
    return None


def find_xids(log: str) -> tuple[Xid, ...]:
    """The Xids in the text of a kernel log, since the last boot."""
    since_boot = log.rpartition(_BOOT)[2]
    matches = ((line, _XID.search(line)) for line in since_boot.splitlines())
    return tuple(Xid(int(match[2]), match[1], line.strip()) for line, match in matches if match)
