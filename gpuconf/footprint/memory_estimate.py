"""What an estimate says: value types without any framework."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.footprint.step import Setting

# How a number was come by.
TRACED, SIMULATED_CARD, GPU = "traced", "simulated-card", "GPU"


class LayerRow(NamedTuple):
    """What one layer has in memory at the moment of the peak, in bytes.

    ``layer`` is its path, as ``encoder/dense_1``; None is the row of what belongs to no layer:
    data, constants, workspace, metrics, the allocator's rounding.  Shared layers and variables
    are counted once.  ``activations_bytes`` are results of the way forward that are kept,
    ``temporaries_bytes`` what the way back and the update hold for a moment.
    """

    layer: str | None
    kind: str
    parameters_bytes: int = 0
    gradients_bytes: int = 0
    optimizer_state_bytes: int = 0
    activations_bytes: int = 0
    temporaries_bytes: int = 0
    other_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All of them; the rows' totals add up to the peak."""
        return sum(self[2:])


class Phase(NamedTuple):
    """A part of the step whose need is the largest for some batches: ``base + per_sample * batch``.

    It is so from ``first_batch`` on, until the next phase's.  ``operation``, ``layer`` and
    ``part`` (forward, backward, update) say where.  Bytes as they are asked for, beside the
    resident ones.
    """

    base_bytes: int
    per_sample_bytes: float
    first_batch: int
    operation: str
    layer: str | None
    part: str


class Moment(NamedTuple):
    """Bytes in use during one operation, by what they are for (see ``gpuconf.footprint.step``)."""

    part: str
    layer: str | None
    operation: str
    bytes_by_kind: dict[str, int]

    @property
    def total_bytes(self) -> int:
        """All that is in use."""
        return sum(self.bytes_by_kind.values())


class Peak(NamedTuple):
    """Where the most is in use."""

    operation: str
    layer: str | None
    part: str


class Advice(NamedTuple):
    """A change, and what a trace of the changed model says: bytes at the peak then.

    ``fits`` says whether it runs under the limit then; None where no limit was given.
    """

    change: str
    how: str
    peak_bytes: int
    saved_bytes: int
    fits: bool | None = None


class MemoryEstimate(NamedTuple):
    """What a model costs at a batch size: bytes of the framework's allocator on its device.

    ``peak_bytes`` is the most in use during a step, ``resident_bytes`` what stays between steps
    (weights, optimizer state, metrics).  ``largest_batch`` is the largest that fits into
    ``limit_bytes``; None where no limit was given, 0 where not even one sample fits.
    ``tier`` says how the number was come by: traced, simulated-card, GPU.  Not in it: what
    else lies on the card, such as the CUDA context.
    """

    batch_size: int
    peak_bytes: int
    resident_bytes: int
    setting: Setting | None
    peak: Peak
    layers: tuple[LayerRow, ...]
    phases: tuple[Phase, ...]
    timeline: tuple[Moment, ...]
    workspace_bytes: int = 0
    constant_bytes: int = 0
    rounding_bytes: int = 0
    limit_bytes: int | None = None
    largest_batch: int | None = None
    advice: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()
    tier: str = TRACED

    @property
    def fits(self) -> bool | None:
        """Whether this batch fits into the limit; None where there is none."""
        if self.limit_bytes is None or self.largest_batch is None:
            return None
        return self.batch_size <= self.largest_batch

    def __str__(self) -> str:
        """The report, as the command prints it."""
        from gpuconf.footprint.text import report

        return "\n".join(line.text for line in report(self))
