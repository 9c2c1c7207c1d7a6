"""What ``gpuconf doctor --probe`` measured, and who held memory on a card: plain values."""

from __future__ import annotations

from typing import Annotated

from gpuconf.json_shape import Bytes, Count, FieldRule, json_shape
from gpuconf.records import NamedTuple
from gpuconf.units import sized


class MeasuredHolder(NamedTuple):
    """A process that holds memory on a card, or a lease.  Unknown is None."""

    pid: int
    """Its number."""
    name: str | None = None
    """As the driver reports it."""
    user: str | None = None
    """The owner's account."""
    used_bytes: Bytes | None = None
    """What it holds."""
    since: str | None = None
    """Its start, ISO 8601 with the zone."""
    kind: Annotated[str, FieldRule(enum=("compute", "graphics"))] = "compute"
    """What it does on the card."""
    state: str | None = None
    """The kernel's letter: R, S, D, T stopped, Z dead."""
    is_ours: bool | None = None
    """Whether the user who runs the doctor owns it."""
    lease_bytes: Bytes | None = None
    """What it and its children may take; None without a lease."""

    def __str__(self) -> str:
        """One line for people."""
        held = sized(self.used_bytes) if self.used_bytes is not None else "an unknown size"
        does = f"holds {held}"
        if self.lease_bytes is not None:
            leases = f"leases {sized(self.lease_bytes)}"
            does = f"{does}, {leases}" if self.used_bytes else leases
        user = f" of {self.user}" if self.user else ""
        since = f" since {self.since[:16].replace('T', ' ')}" if self.since else ""
        return f"pid {self.pid} {self.name or '(name unknown)'}{user} {does}{since}"


class CardMemory(NamedTuple):
    """What is taken on one card at one moment, in bytes.  Unknown is None."""

    used_bytes: Bytes | None = None
    """In use on the card, by NVML."""
    free_bytes: Bytes | None = None
    """Free on the card, by NVML."""
    own_bytes: Bytes | None = None
    """Held by the probe's process, by NVML."""
    current_bytes: Bytes | None = None
    """Given to tensors by the framework's allocator."""
    peak_bytes: Bytes | None = None
    """The most of it since the step began."""


@json_shape(hidden=("holders",))
class ProbedCard(NamedTuple):
    """A card that the probe is about."""

    place: Count
    """The framework's number for the card, which steps count by."""
    label: str
    """Its name for people."""
    uuid: str | None = None
    """As nvidia-smi -L prints it."""
    total_bytes: Bytes | None = None
    """The whole card."""
    free_bytes: Bytes | None = None
    """Free before the probe."""
    limit_bytes: Bytes | None = None
    """What the profile allows the framework; None: no limit."""
    allow_growth: bool | None = None
    """Whether the limit is taken step by step."""
    holders: tuple[MeasuredHolder, ...] = ()
    """Who held memory before; the documents have them with the cards."""
    promised_bytes: Bytes | None = None
    """What others' leases may still take of the free memory; None where nothing is leased."""


class StepError(NamedTuple):
    """What a step raised."""

    kind: str = "an error"
    """The exception's type."""
    message: str = ""
    """Its text."""
    hint: str | None = None
    """A GpuconfError's hint."""


class LiveStep(NamedTuple):
    """One step of the probe."""

    step: str
    """Which one: start, context, memory, matmul, convolution or fit."""
    cards: tuple[Count, ...] = ()
    """The places of the cards it was tried on."""
    seconds: Annotated[float, FieldRule(minimum=0)] | None = None
    """How long it took; None where it did not end."""
    before: tuple[CardMemory, ...] = ()
    """Memory of each of its cards."""
    after: tuple[CardMemory, ...] = ()
    """The same, when it had ended."""
    error: StepError | None = None
    """Why it failed; None where it did not."""

    @property
    def has_passed(self) -> bool:
        """Whether it ended without an error."""
        return self.seconds is not None and self.error is None


class MeasuredRun(NamedTuple):
    """What one child measured."""

    only: Count | None
    """The place of the one card that was tried; None: all of them."""
    cards: tuple[ProbedCard, ...]
    """The cards."""
    steps: tuple[LiveStep, ...]
    """Its steps, in order."""
    framework: Annotated[str, FieldRule(enum=("tensorflow", "torch", "jax"))] = "tensorflow"
    """Whose steps they are."""


class LiveProbe(NamedTuple):
    """The runs of the probe's child."""

    runs: tuple[MeasuredRun, ...]
    """For each framework first one with every card, then one for each card that failed in it;
    none where nothing could be tried.
    """
