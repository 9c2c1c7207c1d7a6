"""What the guards of a framework ask of whoever has the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gpuconf.planner import Plan
from gpuconf.settings import Setting


class PlanSource(Protocol):
    """Where the plan comes from: gpuconf.binding.Binding."""

    def bind(self, apply: Callable[[Plan], None], *, only_lists: bool = False) -> None:
        """Make the plan hold, and call ``apply`` with it; raises where it cannot hold.

        With ``only_lists`` no device is made yet.
        """

    def use(self, uuids: Sequence[str]) -> None:
        """Count this process on the GPUs that it is about to use; raises where that may not be."""

    def release(self) -> None:
        """Let others have what was leased: this process uses no GPU."""

    def record(self, setting: Setting) -> None:
        """Take down a setting's fate."""
