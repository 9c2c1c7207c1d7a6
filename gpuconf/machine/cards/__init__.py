"""The machine's GPUs: what NVML reports about them; ``visible_devices``, which ones CUDA shows."""

from __future__ import annotations

from gpuconf.machine.cards.inventory import CardLease, Gpu, GpuProcess, Inventory
from gpuconf.machine.cards.nvml import read_inventory

__all__ = ["CardLease", "Gpu", "GpuProcess", "Inventory", "read_inventory"]
