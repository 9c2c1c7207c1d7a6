"""What an estimate says: value types without any framework."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from gpuconf.footprint.step import Part, TraceSetting
from gpuconf.json_shape import Bytes, FieldRule, FromOne, json_shape
from gpuconf.reporting.text import text_of

# How a number was found.
TRACED, SIMULATED_CARD, GPU = "traced", "simulated-card", "GPU"
Tier = Annotated[str, FieldRule(enum=(TRACED, SIMULATED_CARD, GPU))]


@json_shape(computed=("total_bytes",))
class LayerRow(NamedTuple):
    """What one layer has in memory at the moment of the peak, in bytes.

    Shared layers and variables are counted once.
    """

    layer: str | None
    """Its path, such as encoder/dense_1; None for what belongs to no layer: data, constants,
    workspace, rounding.
    """
    kind: str
    """Its class."""
    parameters_bytes: Bytes = 0
    """Its weights."""
    gradients_bytes: Bytes = 0
    """Of its weights."""
    optimizer_state_bytes: Bytes = 0
    """Of its weights."""
    activations_bytes: Bytes = 0
    """Results of the forward pass that are kept."""
    temporaries_bytes: Bytes = 0
    """What backward pass and update hold for a moment."""
    other_bytes: Bytes = 0
    """Everything else."""

    @property
    def total_bytes(self) -> Bytes:
        """All of them; the rows' totals add up to the peak."""
        return sum(self[2:])


class Phase(NamedTuple):
    """A part of the step whose need is the largest for some batches: ``base + per_sample * batch``.

    Bytes as they are asked for, beside the resident ones.
    """

    base_bytes: int
    """At batch 0."""
    per_sample_bytes: Annotated[float, FieldRule(minimum=0)]
    """For each sample of the batch."""
    first_batch: FromOne
    """From this batch on, until the next phase's."""
    operation: str
    """Its name in the graph."""
    layer: str | None
    """The path of its layer; None where it is of none."""
    part: Part
    """The part of the step."""


class Moment(NamedTuple):
    """Bytes in use during one operation, by what they are for (see ``gpuconf.footprint.step``)."""

    part: Part
    """The part of the step."""
    layer: str | None
    """The path of its layer; None where it is of none."""
    operation: str
    """Its name in the graph."""
    bytes_by_kind: dict[str, int]
    """Bytes by what they are for."""

    @property
    def total_bytes(self) -> int:
        """All that is in use."""
        return sum(self.bytes_by_kind.values())


class Peak(NamedTuple):
    """Where the most is in use."""

    operation: str
    """Its name in the graph."""
    layer: str | None
    """The path of its layer; None where it is of none."""
    part: Part
    """The part of the step."""


class Advice(NamedTuple):
    """A change, and what a trace of the changed model says."""

    change: str
    """What is changed."""
    how: str
    """Code or a command that does it."""
    peak_bytes: Bytes
    """The peak with it."""
    saved_bytes: int
    """What it saves; below 0 where it costs."""
    fits: bool | None = None
    """Whether it runs under the limit then; None without a limit."""


class MemoryEstimate(NamedTuple):
    """What a model costs at a batch size: bytes of the framework's allocator on its device.

    ``peak_bytes`` is the most in use during a step, ``resident_bytes`` what stays between steps
    (weights, optimizer state, metrics).  ``largest_batch`` is the largest that fits into
    ``limit_bytes``; None where no limit was given, 0 where not even one sample fits.
    ``tier`` says how the number was found: traced, simulated-card, GPU.  Not in it: whatever
    else is on the card, such as the CUDA context.  Where the peak is not that of every step,
    ``building_bytes`` is how much more is in use while the model is built, or
    ``first_step_bytes`` in the first step, where optimizer state leaves the zeros it has shared.
    """

    batch_size: int
    peak_bytes: int
    resident_bytes: int
    setting: TraceSetting | None
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
    tier: Tier = TRACED
    building_bytes: int = 0
    first_step_bytes: int = 0

    @property
    def fits(self) -> bool | None:
        """Whether this batch fits into the limit; None where there is none."""
        if self.limit_bytes is None or self.largest_batch is None:
            return None
        return self.batch_size <= self.largest_batch

    def __str__(self) -> str:
        """The report, as the command prints it."""
        return text_of(self)

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        from gpuconf import rich_display

        return rich_display.html_of(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """How IPython shows it as text."""
        from gpuconf import rich_display

        printer.text(rich_display.text_of(self))
