"""The card of the demo: the caller's first GPU, unless others compute there.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpuconf.basics.units import sized
from gpuconf.machine.cards import Gpu, Inventory, needs_pci_order, resolve, visible_devices_value
from gpuconf.machine.cards.reserve import IDLE_BYTES


class CardChoice(NamedTuple):
    """The GPU to use, or None for the simulated card, and why; ``variables`` expose only it."""

    gpu: Gpu | None
    because: str
    variables: dict[str, str] = {}  # noqa: RUF012  # never changed


def choose_card(
    inventory: Inventory, environ: Mapping[str, str], *, even_if_used: bool = False
) -> CardChoice:
    """Choose the first GPU that ``environ`` exposes, never another one.

    The half without gpuconf takes all free memory, so a GPU on which others compute, or may compute
    unseen, is not used unless ``even_if_used``.
    """
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if not inventory.gpus:
        return CardChoice(None, inventory.problem or "the driver finds no GPU")
    visible = resolve(
        listed,
        inventory.gpus,
        device_order=environ.get("CUDA_DEVICE_ORDER"),
        driver_version=inventory.driver_version,
    )
    if not visible.devices:
        return CardChoice(None, visible.explanation or "CUDA shows no GPU")
    if listed is not None and not visible.order_certain:
        return CardChoice(None, f"CUDA_VISIBLE_DEVICES={listed}: {visible.explanation}")
    gpu = visible.devices[0]
    if gpu.uuid is None and gpu.mig_ids is not None:  # an index would expose the whole card
        return CardChoice(None, f"the driver names no UUID of the MIG instance on GPU {gpu.index}")
    users = _users(gpu)
    if users and not even_if_used:
        return CardChoice(None, f"{users} on GPU {gpu.index}; --real uses it all the same")
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if needs_pci_order([gpu]) else {}
    shown = {"CUDA_VISIBLE_DEVICES": visible_devices_value([gpu]), **order}
    return CardChoice(gpu, "it is the first that CUDA shows", shown)


def _users(gpu: Gpu) -> str:
    """The programs that the demo would disturb; empty if there are none."""
    computing = [process for process in gpu.processes or () if process.kind == "compute"]
    if computing:
        named = ", ".join(f"{process.name or 'a program'} ({process.pid})" for process in computing)
        return f"{named} holds memory"
    if gpu.leases:
        named = ", ".join(f"{each.program or 'a program'} ({each.pid})" for each in gpu.leases)
        return f"{named} leases memory"
    # WSL2 and containers hide the users, and unified memory belongs to the whole machine.
    if gpu.used_bytes is None:
        return "the driver does not say how much memory is in use"
    if not gpu.processes and gpu.used_bytes > IDLE_BYTES:
        return f"{sized(gpu.used_bytes)} are in use, and the driver lists no program,"
    return ""
