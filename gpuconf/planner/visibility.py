"""The CUDA_VISIBLE_DEVICES value that shows the chosen GPUs in a known order."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconf.basics.units import sized
from gpuconf.machine.cards.inventory import Gpu, Inventory
from gpuconf.machine.cards.visible_devices import (
    VisibleDevices,
    narrow,
    needs_pci_order,
    resolve,
    visible_devices_value,
)
from gpuconf.planner.plan import GpuPlan


def fastest_first(chosen: Sequence[Gpu]) -> list[Gpu]:
    """Sort ``chosen`` into CUDA's most likely order for unequal GPUs: newest first, then largest.

    CUDA's own rule is undocumented.  A user who names no GPU expects the fast GPU to be the
    program's first, as it is without gpuconf, not the small one that drives the display.
    """
    if any(gpu.mig_ids is not None for gpu in chosen):
        return list(chosen)
    return sorted(
        chosen,
        key=lambda gpu: (gpu.compute_capability or (0, 0), gpu.total_bytes or 0),
        reverse=True,
    )


def see(value: str | None, order: str | None, inventory: Inventory) -> VisibleDevices:
    """Return what CUDA shows for this CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.

    If indices count different GPU models fastest first, they are read in the order given by
    :func:`fastest_first`, which is more likely to be CUDA's order than nvidia-smi's is.
    """
    gpus, driver = inventory.gpus, inventory.driver_version
    visible = resolve(value, gpus, device_order=order, driver_version=driver)
    if value is None or visible.order_certain or any(gpu.mig_enabled for gpu in gpus):
        return visible
    counted = fastest_first(gpus)
    renumbered = [gpu._replace(index=number) for number, gpu in enumerate(counted)]
    visible = resolve(value, renumbered, device_order=order, driver_version=driver)
    return visible._replace(devices=tuple(counted[gpu.index] for gpu in visible.devices))


def variables_to_write(
    chosen: Sequence[Gpu], visible: VisibleDevices, inherited: VisibleDevices | None = None
) -> tuple[str | None, str | None]:
    """Return the CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER for ``chosen``; None means unchanged.

    CUDA numbers GPUs fastest first unless CUDA_DEVICE_ORDER is PCI_BUS_ID. So UUIDs are written if
    the choice narrows or reorders the GPUs, or if that order is unknown. A user's list of indices
    in an unknown order keeps its own entries: other names could mean other GPUs. The same applies
    to ``inherited``, a parent's choice. "Unchanged" means as the user set it, so under a parent
    that chose fewer GPUs a value is always written.
    """
    if list(chosen) == list(visible.devices) and visible.order_certain:
        return None, None
    bound = visible if inherited is None else inherited
    if bound.entries and not bound.order_certain:
        everything = inherited is None and len(chosen) == len(visible.devices)
        return None if everything else narrow(bound, chosen), None
    # If a UUID is unknown, the value uses nvidia-smi's order, for which CUDA needs a variable.
    order = "PCI_BUS_ID" if needs_pci_order(chosen) else None
    return visible_devices_value(chosen), order


def settle_order(
    planned: Sequence[GpuPlan], candidates: Sequence[GpuPlan], value: str | None
) -> tuple[list[GpuPlan], list[str]]:
    """Limit each GPU to the smallest limit, because only CUDA knows which GPU each index means.

    This applies to indices on machines with different GPU models, without PCI_BUS_ID. The limit
    used is the one for the smallest of ``candidates``, including its logical devices.
    """
    note = (
        "CUDA numbers GPUs of different models by speed, so gpuconf cannot tell which GPU "
        f"CUDA_VISIBLE_DEVICES={value} selects; `export CUDA_DEVICE_ORDER=PCI_BUS_ID` uses "
        "nvidia-smi's order"
    )
    limited = [plan for plan in candidates if plan.limit_bytes is not None]
    if not limited:
        return list(planned), [note]
    smallest = min(limited, key=lambda plan: plan.limit_bytes or 0)
    return [_held_to(smallest, plan) for plan in planned], [note]


def _held_to(smallest: GpuPlan, plan: GpuPlan) -> GpuPlan:
    """Return ``plan`` with the limit of ``smallest``, and without a lease if that changes the
    limit."""
    limit, own = smallest.limit_bytes or 0, plan.limit_bytes
    plan = plan._replace(limit_bytes=limit, logical_devices_bytes=smallest.logical_devices_bytes)
    if own == limit:
        return plan
    line = f"limit = {sized(limit)}, the smallest of all GPUs, because their order is uncertain"
    return plan._replace(arithmetic=(*plan.arithmetic, line), lease_bytes=None)
