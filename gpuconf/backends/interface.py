"""The interface through which framework guards reach the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gpuconf.basics.setting import Setting
from gpuconf.planner import GpuPlan, Plan


class PlanSource(Protocol):
    """The source of the plan: gpuconf.session.binding.Binding."""

    def bind(self, apply: Callable[[Plan], None], *, only_lists: bool = False) -> None:
        """Put the plan into effect and call ``apply``; ``only_lists``: no device is created yet."""

    def use(self, uuids: Sequence[str]) -> None:
        """Register this process on the GPUs it is about to use; raise if that is not allowed."""

    def release(self) -> None:
        """Release the leases: this process uses no GPU."""

    def record(self, setting: Setting) -> None:
        """Record a setting's outcome."""

    def claim_reserve(self, gpu: GpuPlan, framework: str, *, again: bool = False) -> bool:
        """Whether ``framework`` allocates the reserve now; ``again`` means for a new allocator."""
        ...
