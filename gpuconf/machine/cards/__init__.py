"""The machine's GPUs: what NVML reports about them, and which ones CUDA shows to a program."""

from __future__ import annotations

from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess, Inventory
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
