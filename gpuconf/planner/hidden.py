"""The plan that lets no framework see a GPU."""

from __future__ import annotations

from gpuconf.hardware.inventory import Gpu
from gpuconf.planner.plan import Plan
from gpuconf.profile.model import Profile


def hidden_plan(
    profile: Profile, visible: tuple[Gpu, ...] = (), *, notes: tuple[str, ...] = ()
) -> Plan:
    """``visible`` are those that it would see without us, ``notes`` say why it does not."""
    return Plan(profile, visible=visible, cuda_visible_devices="-1", hides_gpus=True, notes=notes)
