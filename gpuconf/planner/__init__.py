"""Profile × Inventory -> Plan: which GPUs, how much of each, and the arithmetic behind it.

Pure: nothing here inspects the machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuconf.machine.cards.inventory import Inventory
from gpuconf.planner.other_leases import is_within, wants_leases
from gpuconf.planner.plan import FrameworkLimit, GpuPlan, Plan, hidden_plan, label
from gpuconf.profile.model import Profile

__all__ = [
    "FrameworkLimit",
    "GpuPlan",
    "Plan",
    "is_within",
    "label",
    "make_plan",
    "needs_inventory",
    "wants_leases",
]


def needs_inventory(profile: Profile) -> bool:
    """Whether planning needs figures or names that only the driver knows."""
    return profile.gpus.kind != "none"


def make_plan(
    profile: Profile,
    inventory: Inventory,
    *,
    environ: Mapping[str, str],
    chosen_by_parent: str | None = None,
    order_by_parent: str | None = None,
) -> Plan:
    """Make the plan for ``profile`` on ``inventory``.

    ``environ`` is the environment as the user or a scheduler set it: CUDA_VISIBLE_DEVICES is
    narrowed, never widened.  ``chosen_by_parent`` is the CUDA_VISIBLE_DEVICES that gpuconf wrote in
    a parent process; the plan also stays within it.  ``order_by_parent`` is the CUDA_DEVICE_ORDER
    written with it.  The numbers of a list index the user's GPUs; if that leads outside the
    parent's choice, they index the parent's GPUs.

    Raises ShortageError if a GPU has less memory left than the profile needs (``on_shortage: cpu``
    hides such GPUs instead), and ProfileError if the profile does not fit this machine.
    """
    if profile.gpus.kind == "none" or inventory.unassigned is not None:
        return hidden_plan(profile, notes=tuple(filter(None, [inventory.unassigned])))
    from gpuconf.planner.planning import plan_on  # not needed for a profile without GPUs

    return plan_on(
        inventory,
        profile,
        environ=environ,
        chosen_by_parent=chosen_by_parent,
        order_by_parent=order_by_parent,
    )
