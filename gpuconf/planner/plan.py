"""The Plan: the complete decision as plain values, before anything is set."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.display import shown_in_notebooks, text_of
from gpuconf.machine.cards.inventory import Gpu
from gpuconf.profile.model import Profile

FRAMEWORKS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


class FrameworkLimit(NamedTuple):
    """How much of a GPU one framework may take."""

    framework: str
    """Its name: tensorflow, jax or torch."""
    limit_bytes: int | None = None
    """Its limit; None if it cannot be limited."""
    fraction: float | None = None
    """Its limit as a fraction of the GPU's total, for frameworks that do not take bytes."""
    at_once: bool | None = None
    """Whether it takes the whole limit at startup; None if that is left to the framework."""
    arithmetic: tuple[str, ...] = ()
    """The arithmetic behind the limit, line by line."""


class GpuPlan(NamedTuple):
    """How much of one GPU this process may take.

    ``limit_bytes`` is the limit from the profile's rules, independent of the framework; None if no
    rule limits it, in which case the framework takes as much as it wants. ``limits`` holds the
    resulting limit of each framework. ``fraction`` is the profile's own, for version-1 sessions,
    which accept nothing else. ``logical_devices_bytes`` are the sizes of the TF2 logical devices,
    in order, empty if the GPU is not split. ``uncut_limit_bytes`` is the limit without other
    programs' leases.

    ``lease_bytes`` is the amount of the GPU that this process leases, None if it leases nothing.
    ``most_bytes`` is what it may take in total: the limit and the context of each process.
    ``preallocated_bytes`` is what each process's framework allocates when it initializes its GPUs.
    ``least_free_bytes`` is the minimum that must be free and not leased.

    ``arithmetic`` has one line per step for ``limit_bytes``, the logical devices and the lease.
    ``shortage`` says what is missing, None if nothing is. ``is_behind`` means that nothing is
    missing, but other programs came first.
    """

    gpu: Gpu
    limit_bytes: int | None = None
    allow_growth: bool | None = None
    fraction: float | None = None
    logical_devices_bytes: tuple[int, ...] = ()
    arithmetic: tuple[str, ...] = ()
    shortage: str | None = None
    can_ever_fit: bool = True
    is_behind: bool = False
    uncut_limit_bytes: int | None = None
    limits: tuple[FrameworkLimit, ...] = ()
    lease_bytes: int | None = None
    most_bytes: int | None = None
    preallocated_bytes: int = 0
    least_free_bytes: int = 0

    @property
    def unsized_fraction(self) -> float | None:
        """The profile's fraction if no limit in bytes is known: the framework knows the total."""
        return self.fraction if self.limit_bytes is None and not self.gpu.total_bytes else None

    def limit_of(self, framework: str) -> FrameworkLimit | None:
        """Return the limit of ``framework`` on this GPU; None if there is none."""
        return next((limit for limit in self.limits if limit.framework == framework), None)

    @property
    def sums(self) -> tuple[str, ...]:
        """All the arithmetic: for the limit, then for each framework."""
        return self.arithmetic + tuple(
            f"{FRAMEWORKS[limit.framework]}: {line}"
            for limit in self.limits
            for line in limit.arithmetic
        )


@shown_in_notebooks
class Plan(NamedTuple):
    """The complete decision, before anything is set.

    ``gpus`` are the GPUs that a framework will see, in the order in which it sees them. If the
    machine reports nothing about its GPUs (no NVML), ``gpus`` is empty and ``unknown_gpu`` holds
    the rules for any GPU that a framework finds. ``visible`` are the GPUs it would see without
    gpuconf.

    ``cuda_visible_devices`` and ``cuda_device_order`` are the values to write, None to leave the
    variable unchanged.  ``notes`` are for stderr: what the machine lacks, and how the plan handles
    it.
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
        """The growth switch, of which each process has one; make_plan rejects GPUs that differ in
        it."""
        planned = self.gpus or ((self.unknown_gpu,) if self.unknown_gpu else ())
        return planned[0].allow_growth if planned else self.profile.memory.allow_growth

    @property
    def limits_memory(self) -> bool:
        """Whether any GPU has a limit."""
        planned = self.gpus or ((self.unknown_gpu,) if self.unknown_gpu else ())
        return any(gpu.limit_bytes is not None or gpu.unsized_fraction for gpu in planned)

    def __str__(self) -> str:
        """Return the text that `gpuconf plan` prints."""
        return text_of(self)


def label(gpu: Gpu) -> str:
    """Return a short display name: nvidia-smi's index and the name, or a MIG instance's UUID."""
    if gpu.mig_ids and gpu.uuid:
        return f"{gpu.name or 'MIG instance'} ({gpu.uuid[:12]})"
    return f"GPU {gpu.index} ({gpu.name})" if gpu.name else f"GPU {gpu.index}"


def hidden_plan(
    profile: Profile, visible: tuple[Gpu, ...] = (), *, notes: tuple[str, ...] = ()
) -> Plan:
    """Return the plan that hides all GPUs from every framework.

    ``visible`` are the GPUs visible without gpuconf, and ``notes`` say why none is visible now.
    """
    return Plan(profile, visible=visible, cuda_visible_devices="-1", hides_gpus=True, notes=notes)
