"""The Plan: the whole decision as plain values, before anything is set."""

from __future__ import annotations

from gpuconf.hardware.inventory import Gpu
from gpuconf.profile.model import Profile
from gpuconf.records import NamedTuple

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from typing import Any

FRAMEWORKS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


class FrameworkLimit(NamedTuple):
    """What one framework may take of a GPU."""

    framework: str
    """Its name: tensorflow, jax or torch."""
    limit_bytes: int | None = None
    """Its limit; None where it cannot be limited."""
    fraction: float | None = None
    """Its limit as a fraction of the GPU's total, for frameworks that take no bytes."""
    at_once: bool | None = None
    """Whether it takes all of that at its start; None where that is left to the framework."""
    arithmetic: tuple[str, ...] = ()
    """The sum that made the limit, line by line."""


class GpuPlan(NamedTuple):
    """What one GPU may give to this process.

    ``limit_bytes`` is what the profile's rules allow, whatever the framework; None where no rule
    limits it, and then the framework takes what it likes.  ``limits`` is what that comes to in
    each framework.
    ``fraction`` is the profile's own, for version-1 sessions, which take nothing else.
    ``logical_devices_bytes`` are TF2 logical devices, in order, empty for none beyond the one.
    ``uncut_limit_bytes`` is what the limit would be without others' leases.
    ``lease_bytes`` is what this process is to lease of the card, None where nothing is leased, and
    ``least_free_bytes`` the least that must be free and leased to nobody.  ``mps_limit_bytes`` is
    what MPS is to hold the whole process to.
    ``arithmetic`` is one line per step of ``limit_bytes``, the logical devices and the lease.
    ``shortage`` says what is missing, None if nothing; ``is_behind`` that nothing is, but others
    came first.
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
    least_free_bytes: int = 0
    mps_limit_bytes: int | None = None

    def limit_of(self, framework: str) -> FrameworkLimit | None:
        """The limit of ``framework`` here; None where this GPU has none."""
        return next((limit for limit in self.limits if limit.framework == framework), None)

    @property
    def sums(self) -> tuple[str, ...]:
        """All of the arithmetic: of the limit, then of each framework's."""
        return self.arithmetic + tuple(
            f"{FRAMEWORKS[limit.framework]}: {line}"
            for limit in self.limits
            for line in limit.arithmetic
        )


class Plan(NamedTuple):
    """The whole decision, before anything is set.

    ``gpus`` are the GPUs a framework is to see, in its order.  Where the machine reports nothing
    about its GPUs (no NVML), ``gpus`` is empty and ``unknown_gpu`` holds the rules for whatever
    GPU a framework finds.  ``visible`` are those it would see without us.
    ``cuda_visible_devices`` and ``cuda_device_order`` are the values to write, None to leave the
    variable alone.
    ``notes`` are for stderr: what the machine lacks and what the plan did about it.
    ``mps_is_running`` is known where ``memory.enforce`` asks for MPS.
    """

    profile: Profile
    gpus: tuple[GpuPlan, ...] = ()
    unknown_gpu: GpuPlan | None = None
    visible: tuple[Gpu, ...] = ()
    cuda_visible_devices: str | None = None
    cuda_device_order: str | None = None
    hides_gpus: bool = False
    notes: tuple[str, ...] = ()
    mps_is_running: bool | None = None

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

    def __str__(self) -> str:
        """As `gpuconf plan` prints it."""
        from gpuconf import rich_display

        return rich_display.text_of(self)

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        from gpuconf import rich_display

        return rich_display.html_of(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """How IPython shows it as text."""
        from gpuconf import rich_display

        printer.text(rich_display.text_of(self))


def label(gpu: Gpu) -> str:
    """A short name for people: the card's name and the beginning of its UUID."""
    name = gpu.name or "GPU"
    return f"{name} ({gpu.uuid[:12]})" if gpu.uuid else f"{name} {gpu.index}"
