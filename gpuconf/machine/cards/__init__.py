"""The machine's GPUs: what NVML reports about them, and which ones CUDA shows to a program.

The modules that query NVML and parse CUDA_VISIBLE_DEVICES are imported on first use (PEP 562): a
plan for a profile without GPUs needs only the value types.
"""

from __future__ import annotations

from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess, Inventory

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from gpuconf.machine.cards.nvml import read_inventory
    from gpuconf.machine.cards.visible_devices import (
        VisibleDevices,
        match_uuid,
        narrow,
        needs_pci_order,
        resolve,
        visible_devices_value,
    )

__all__ = [
    "CardLease",
    "Gpu",
    "GpuProcess",
    "Inventory",
    "VisibleDevices",
    "match_uuid",
    "narrow",
    "needs_pci_order",
    "read_inventory",
    "resolve",
    "visible_devices_value",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'gpuconf.machine.cards' has no attribute {name!r}")
    if name == "read_inventory":
        from gpuconf.machine.cards import nvml as home
    else:
        from gpuconf.machine.cards import visible_devices as home  # type: ignore[no-redef]
    value: object = getattr(home, name)
    globals()[name] = value
    return value
