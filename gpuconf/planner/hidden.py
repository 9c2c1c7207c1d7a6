"""The plan that hides all GPUs from every framework."""

from __future__ import annotations

from gpuconf.hardware.inventory import Gpu
from gpuconf.planner.plan import Plan
from gpuconf.profile.model import Profile


def hidden_plan(
    profile: Profile, visible: tuple[Gpu, ...] = (), *, notes: tuple[str, ...] = ()
) -> Plan:
    """Make it; ``visible`` are the GPUs visible without us, and ``notes`` say why none is now."""
    return Plan(profile, visible=visible, cuda_visible_devices="-1", hides_gpus=True, notes=notes)
