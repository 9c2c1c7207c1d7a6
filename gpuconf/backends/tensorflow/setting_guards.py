"""Limit what a script itself sets in tf.config to the plan: growth and logical devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from gpuconf.backends.tensorflow.environment import GROWTH
from gpuconf.backends.tensorflow.session_config import HeldToPlan
from gpuconf.basics.setting import Setting
from gpuconf.basics.units import MIB
from gpuconf.injected.sizes import listed, scaled_to
from gpuconf.planner import GpuPlan, Plan


class Guarded(Protocol):
    """The guarded TensorFlow: gpuconf.backends.tensorflow.guards.Guards."""

    plan: Plan | None
    physical: list[GpuPlan | None]
    is_configuring: bool

    def record(self, setting: Setting) -> None:
        """Record a setting's outcome."""

    def say_changes(self, function: str, changes: list[HeldToPlan]) -> None:
        """Report what the script asked for and did not get."""


class SettingGuards:
    """Wrappers for the eager context's methods; each receives the original first."""

    def __init__(self, guards: Guarded) -> None:
        self._guards = guards

    def set_memory_growth(
        self, original: Callable[..., Any], context: Any, device: Any, enable: bool
    ) -> Any:
        guards, plan = self._guards, self._guards.plan
        context._initialize_physical_devices()
        limited = self._limit_of(context, device) is not None
        if (
            self._guards.is_configuring
            or plan is None
            or (plan.allow_growth is None and not limited)
        ):
            return original(context, device, enable)
        if plan.allow_growth is None:
            # The only way to enable growth on a device with a limit; read when the allocator is
            # created.
            os.environ.setdefault(GROWTH, "true" if enable else "false")
            guards.record(Setting(GROWTH, str(enable).lower(), os.environ[GROWTH]))
        elif bool(enable) != plan.allow_growth:
            change = HeldToPlan(str(enable), str(plan.allow_growth), "sets allow_growth")
            self._guards.say_changes("set_memory_growth", [change])
        return None

    def get_memory_growth(self, original: Callable[..., Any], context: Any, device: Any) -> Any:
        seen = original(context, device)
        limited = seen is None and self._limit_of(context, device) is not None
        return os.environ.get(GROWTH) == "true" if limited else seen

    def set_logical(
        self, original: Callable[..., Any], context: Any, device: Any, wanted: Any
    ) -> Any:
        context._initialize_physical_devices()
        limit = None if self._guards.is_configuring else self._limit_of(context, device)
        asked = [logical.memory_limit for logical in wanted or ()]
        if limit is None or not asked or None in asked:
            return original(context, device, wanted)
        held = scaled_to(asked, limit)
        if [int(size) for size in asked] != held:
            change = HeldToPlan(f"memory_limit {listed(asked)}", listed(held))
            self._guards.say_changes("set_logical_device_configuration", [change])
        scaled = [
            logical._replace(memory_limit=size) for logical, size in zip(wanted, held, strict=True)
        ]
        return original(context, device, scaled)

    def _limit_of(self, context: Any, device: Any) -> int | None:
        """Return the plan's limit for ``device`` in MiB; None if it has none."""
        gpus = context.list_physical_devices("GPU")
        if device not in gpus or len(gpus) != len(self._guards.physical):
            return None
        gpu = self._guards.physical[gpus.index(device)]
        return None if gpu is None or gpu.limit_bytes is None else gpu.limit_bytes // MIB
