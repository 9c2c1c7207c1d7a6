"""The CUDA_VISIBLE_DEVICES that shows the chosen GPUs, in an order that is known."""

from __future__ import annotations

from collections.abc import Sequence

from gpuconf.hardware import VisibleDevices, narrow, needs_pci_order, resolve, visible_devices_value
from gpuconf.hardware.inventory import Gpu, Inventory
from gpuconf.planner.plan import GpuPlan
from gpuconf.units import sized


def fastest_first(chosen: Sequence[Gpu]) -> list[Gpu]:
    """``chosen`` in the order that CUDA most likely gives unequal cards: the newest, largest first.

    CUDA's own rule is not documented.  Whoever names no GPU expects the fast card to be the
    program's first, as it is without us, and not the small one that drives the display.
    """
    if any(gpu.mig_ids is not None for gpu in chosen):
        return list(chosen)
    return sorted(
        chosen,
        key=lambda gpu: (gpu.compute_capability or (0, 0), gpu.total_bytes or 0),
        reverse=True,
    )


def see(value: str | None, order: str | None, inventory: Inventory) -> VisibleDevices:
    """What CUDA shows for this CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.

    Where indices count unequal cards fastest first, they are taken to mean the cards in the
    order of :func:`fastest_first`, which is likelier than nvidia-smi's.
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
    """CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER that show ``chosen``; None to leave one alone.

    CUDA numbers GPUs fastest first unless CUDA_DEVICE_ORDER says PCI_BUS_ID, so UUIDs are written
    where the choice narrows or reorders, or that order is unknown.  A list that the user wrote in
    indices whose order is unknown keeps its own entries: other names could mean other cards.
    The same holds for ``inherited``, a parent's choice.  "Alone" means as the user set it, so
    below a parent that chose less something is always written.
    """
    if list(chosen) == list(visible.devices) and visible.order_certain:
        return None, None
    bound = visible if inherited is None else inherited
    if bound.entries and not bound.order_certain:
        everything = inherited is None and len(chosen) == len(visible.devices)
        return None if everything else narrow(bound, chosen), None
    # Where a UUID is unknown the value counts in nvidia-smi's order; CUDA needs a variable for it.
    order = "PCI_BUS_ID" if needs_pci_order(chosen) else None
    return visible_devices_value(chosen), order


def settle_order(
    planned: Sequence[GpuPlan], candidates: Sequence[GpuPlan], value: str | None
) -> tuple[list[GpuPlan], list[str]]:
    """Indices on unequal cards without PCI_BUS_ID: which card is meant is CUDA's secret.

    So each gets what the smallest of the ``candidates`` may have, logical devices included.
    """
    note = (
        f"CUDA_VISIBLE_DEVICES={value} counts unequal GPUs fastest first, which can only be "
        "guessed at; `export CUDA_DEVICE_ORDER=PCI_BUS_ID` makes it nvidia-smi's order"
    )
    limited = [plan for plan in candidates if plan.limit_bytes is not None]
    if not limited:
        return list(planned), [note]
    smallest = min(limited, key=lambda plan: plan.limit_bytes or 0)
    return [_held_to(smallest, plan) for plan in planned], [note]


def _held_to(smallest: GpuPlan, plan: GpuPlan) -> GpuPlan:
    """``plan`` with the limit of ``smallest``, and a lease of that limit and its own context."""
    limit, own = smallest.limit_bytes or 0, plan.limit_bytes
    plan = plan._replace(limit_bytes=limit, logical_devices_bytes=smallest.logical_devices_bytes)
    if own == limit:
        return plan
    lines = [f"limit = {sized(limit)}, the smallest of all, as the GPUs' order is uncertain"]
    if own is not None and plan.lease_bytes is not None:
        context = plan.lease_bytes - own
        plan = plan._replace(lease_bytes=limit + context)
        lines.append(f"lease = {sized(limit)} limit + {sized(context)} context")
    return plan._replace(arithmetic=(*plan.arithmetic, *lines))
