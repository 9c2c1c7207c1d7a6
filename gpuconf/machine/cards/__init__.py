"""The machine's GPUs: what NVML reports, and which ones CUDA shows (``visible_devices``)."""

from __future__ import annotations

from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess, Inventory
from gpuconf.machine.cards.nvml import read_inventory

__all__ = ["CardLease", "Gpu", "GpuProcess", "Inventory", "read_inventory"]
