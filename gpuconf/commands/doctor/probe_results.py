"""The measurements of ``gpuconf doctor --probe``, and the holders of GPU memory: plain values."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from gpuconf.basics.json_shape import Bytes, Count, FieldRule, json_shape
from gpuconf.basics.units import sized


class MeasuredHolder(NamedTuple):
    """A process that uses memory on a GPU, or a lease.  None means unknown."""

    pid: int
    """Its process ID."""
    name: str | None = None
    """As the driver reports it."""
    user: str | None = None
    """The account name of its owner."""
    used_bytes: Bytes | None = None
    """The memory that it holds."""
    since: str | None = None
    """Its start time, ISO 8601 with the time zone."""
    kind: Annotated[str, FieldRule(enum=("compute", "graphics"))] = "compute"
    """The kind of its work on the GPU."""
    state: str | None = None
    """The kernel's letter: R, S, D, T stopped, Z dead."""
    is_ours: bool | None = None
    """Whether it belongs to the user who runs the doctor."""
    lease_bytes: Bytes | None = None
    """The memory that it and its children may use; None without a lease."""

    def __str__(self) -> str:
        """One line for people."""
        held = sized(self.used_bytes) if self.used_bytes is not None else "an unknown size"
        does = f"uses {held}"
        if self.lease_bytes is not None:
            leases = f"leases {sized(self.lease_bytes)}"
            does = f"{does}, {leases}" if self.used_bytes else leases
        user = f" of {self.user}" if self.user else ""
        since = f" since {self.since[:16].replace('T', ' ')}" if self.since else ""
        return f"pid {self.pid} {self.name or '(name unknown)'}{user} {does}{since}"


class CardMemory(NamedTuple):
    """The memory of one GPU at one moment, in bytes.  None means unknown."""

    used_bytes: Bytes | None = None
    """In use on the GPU, from NVML."""
    free_bytes: Bytes | None = None
    """Free on the GPU, from NVML."""
    own_bytes: Bytes | None = None
    """Held by the probe's process, from NVML."""
    current_bytes: Bytes | None = None
    """Allocated to tensors by the framework's allocator."""
    peak_bytes: Bytes | None = None
    """The peak of that since the step began."""


@json_shape(hidden=("holders",))
class ProbedCard(NamedTuple):
    """A GPU in the probe."""

    place: Count
    """The framework's number for the GPU, which steps refer to."""
    label: str
    """Its name for people."""
    uuid: str | None = None
    """As printed by nvidia-smi -L."""
    total_bytes: Bytes | None = None
    """The total memory of the GPU."""
    free_bytes: Bytes | None = None
    """Free before the probe."""
    limit_bytes: Bytes | None = None
    """The profile's limit for the framework; None means no limit."""
    allow_growth: bool | None = None
    """Whether the memory up to the limit is allocated on demand."""
    holders: tuple[MeasuredHolder, ...] = ()
    """The holders of memory before the probe; in the documents they are listed with the GPUs."""
    promised_bytes: Bytes | None = None
    """Free memory that others' leases may still use; None if nothing is leased."""


class StepError(NamedTuple):
    """The exception raised by a step."""

    kind: str = "an error"
    """The exception's type."""
    message: str = ""
    """Its text."""
    hint: str | None = None
    """A GpuconfError's hint."""


class LiveStep(NamedTuple):
    """One step of the probe."""

    step: str
    """Its name: start, context, memory, matmul, convolution or fit."""
    cards: tuple[Count, ...] = ()
    """The places of the GPUs on which it ran."""
    seconds: Annotated[float, FieldRule(minimum=0)] | None = None
    """Its duration; None if it did not finish."""
    before: tuple[CardMemory, ...] = ()
    """The memory of each of its GPUs before the step."""
    after: tuple[CardMemory, ...] = ()
    """The same after the step."""
    error: StepError | None = None
    """Why it failed; None if it did not."""

    @property
    def has_passed(self) -> bool:
        """Whether it finished without an error."""
        return self.seconds is not None and self.error is None


class MeasuredRun(NamedTuple):
    """The measurements of one child."""

    only: Count | None
    """The place of the only GPU in this run; None if it had all."""
    cards: tuple[ProbedCard, ...]
    """The GPUs."""
    steps: tuple[LiveStep, ...]
    """Its steps, in order."""
    framework: Annotated[str, FieldRule(enum=("tensorflow", "torch", "jax"))] = "tensorflow"
    """The framework that ran the steps."""


class LiveProbe(NamedTuple):
    """The runs of the probe's child."""

    runs: tuple[MeasuredRun, ...]
    """For each framework, one run with all GPUs, then one for each GPU that failed in it; empty
    if nothing could be tried.
    """
