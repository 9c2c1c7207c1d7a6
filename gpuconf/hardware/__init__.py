"""The machine's GPUs: what NVML reports about them, and which of them CUDA shows to a program."""

from gpuconf.hardware.inventory import CardLease, Gpu, GpuProcess, Inventory
from gpuconf.hardware.nvml import read_inventory
from gpuconf.hardware.visible_devices import (
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
