"""Profile × Inventory -> Plan: which GPUs, how much of each, and the arithmetic behind it.

Pure: nothing here inspects the machine. ``planning`` makes the plan; it is imported only where a
plan is made, which `import gpuconf.auto` does not do.
"""

from __future__ import annotations

from gpuconf.planner.other_leases import is_within, wants_leases
from gpuconf.planner.plan import FrameworkLimit, GpuPlan, Plan, label

__all__ = ["FrameworkLimit", "GpuPlan", "Plan", "is_within", "label", "wants_leases"]
