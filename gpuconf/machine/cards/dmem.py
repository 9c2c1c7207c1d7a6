"""The kernel's limit on each GPU's memory for this process's control group: cgroup v2's dmem.

Available in Linux 6.14 and newer (Documentation/admin-guide/cgroup-v2.rst, "DMEM").  Each file has
one line per region: ``drm/0000:03:00.0/vram0 4294967296`` from drivers in the kernel tree, and
``nvidia/<PCI address>/vidmem`` from NVIDIA's driver since R615 (docs.nvidia.com/dynamo, "Per-GPU
Compute and Memory Limits with MPS").  ``max`` means no limit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from gpuconf.basics.processes import text_in
from gpuconf.machine.cards.inventory import Cap, Gpu, Inventory

_MOUNTS = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
_OWN_GROUP = re.compile(r"^0::/(.*)$", re.MULTILINE)
_CARD_MEMORY = re.compile(r".*?/([0-9a-f:]+\.[0-9a-f])/(?:vidmem|vram)\d*")

_NUMBER = re.compile(r"[0-9]{1,20}")  # 64 bits; int() raises for thousands of digits


def with_dmem(inventory: Inventory, root: str = "/") -> Inventory:
    """Add the kernel's caps to the GPUs of ``inventory``; tests pass a file tree as ``root``."""
    found = [each for folder in _groups(root) for each in _caps(folder)]
    if not found:
        return inventory
    return inventory.mapped(lambda gpu: _capped(gpu, found))


def _capped(gpu: Gpu, found: list[tuple[str, Cap]]) -> Gpu:
    """Add the GPU's caps to ``gpu``; a MIG instance gets all caps of its GPU."""
    # NVML writes the PCI domain with eight digits, the kernel with four.
    address = (gpu.pci_bus_id or "").lower().lstrip("0")
    return gpu._replace(caps=tuple(cap for card, cap in found if card.lstrip("0") == address))


def _groups(root: str) -> Iterator[str]:
    """Yield the folder of this process's group and of each parent; all of their caps apply."""
    own = _OWN_GROUP.search(text_in(os.path.join(root, "proc/self/cgroup")))
    # A group outside this process's namespace reads as /../other; then only the mount is visible.
    names = [] if own is None or ".." in own[1] else [*filter(None, own[1].split("/"))]
    for mount in _MOUNTS:
        for length in range(len(names), -1, -1):
            yield os.path.join(root, mount, *names[:length])


def _caps(folder: str) -> Iterator[tuple[str, Cap]]:
    """Yield the caps of one group, each with the PCI address of its GPU."""
    limits = _regions(os.path.join(folder, "dmem.max"))
    used = _regions(os.path.join(folder, "dmem.current")) if limits else {}
    for region, limit in limits.items():
        card = _CARD_MEMORY.fullmatch(region.lower())
        if card and _NUMBER.fullmatch(limit):
            current = used.get(region, "")
            in_use = int(current) if _NUMBER.fullmatch(current) else 0
            yield card[1], Cap("dmem.max", int(limit), in_use)


def _regions(path: str) -> dict[str, str]:
    lines = (line.rpartition(" ") for line in text_in(path).splitlines())
    return {region: value for region, _, value in lines}
