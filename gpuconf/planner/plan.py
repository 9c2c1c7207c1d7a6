"""The Plan: the whole decision as plain values, before anything is set."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.hardware.inventory import Gpu
from gpuconf.profile.model import Profile


class GpuPlan(NamedTuple):
    """What one GPU may give to this process.

    ``limit_bytes`` is None where no rule limits it; then the framework takes what it likes.
    ``fraction`` is the profile's own, for version-1 sessions, which take nothing else.
    ``logical_devices_bytes`` are TF2 logical devices, in order, empty for none beyond the one.
    ``arithmetic`` is one line per step.  ``shortage`` says what is missing, None if nothing.
    """

    gpu: Gpu
    limit_bytes: int | None = None
    allow_growth: bool | None = None
    fraction: float | None = None
    logical_devices_bytes: tuple[int, ...] = ()
    arithmetic: tuple[str, ...] = ()
    shortage: str | None = None
    can_ever_fit: bool = True


class Plan(NamedTuple):
    """The whole decision, before anything is set.

    ``gpus`` are the GPUs a framework is to see, in its order.  Where the machine tells nothing
    about its GPUs (no NVML), ``gpus`` is empty and ``unknown_gpu`` holds the rules for whatever
    GPU a framework finds.  ``visible`` are those it would see without us.
    ``cuda_visible_devices`` and ``cuda_device_order`` are the values to write, None to leave the
    variable alone.
    ``notes`` are for stderr: what the machine lacks and what the plan did about it.
    """

    profile: Profile
    gpus: tuple[GpuPlan, ...] = ()
    unknown_gpu: GpuPlan | None = None
    visible: tuple[Gpu, ...] = ()
    cuda_visible_devices: str | None = None
    cuda_device_order: str | None = None
    hides_gpus: bool = False
    notes: tuple[str, ...] = ()

    @property
    def allow_growth(self) -> bool | None:
        """Growth is one switch for the process; make_plan refuses GPUs that differ in it."""
        planned = self.gpus or ((self.unknown_gpu,) if self.unknown_gpu else ())
        return planned[0].allow_growth if planned else self.profile.memory.allow_growth

    @property
    def limits_memory(self) -> bool:
        """Whether any GPU has a limit."""
        planned = self.gpus or ((self.unknown_gpu,) if self.unknown_gpu else ())
        return any(gpu.limit_bytes is not None for gpu in planned)


def label(gpu: Gpu) -> str:
    """A short name for people: the card's name and the beginning of its UUID."""
    name = gpu.name or "GPU"
    return f"{name} ({gpu.uuid[:12]})" if gpu.uuid else f"{name} {gpu.index}"
