"""The value types of an estimate, independent of any framework."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from gpuconf.basics.display import shown_in_notebooks
from gpuconf.basics.json_shape import Bytes, Count, FieldRule, FromOne, json_shape
from gpuconf.commands.estimate.step import TRACED, Part, Tier, TraceSetting
from gpuconf.support.reporting.text import text_of


@json_shape(computed=("total_bytes",))
class LayerRow(NamedTuple):
    """A layer's memory at the peak, in bytes.

    Shared layers and variables are counted once.
    """

    layer: str | None
    """The layer's path, such as encoder/dense_1; None for memory outside layers: data, constants,
    workspace, rounding.
    """
    kind: str
    """The layer's class."""
    parameters_bytes: Bytes = 0
    """The layer's weights."""
    gradients_bytes: Bytes = 0
    """Gradients of the weights."""
    optimizer_state_bytes: Bytes = 0
    """Optimizer state of the weights."""
    activations_bytes: Bytes = 0
    """Results of the forward pass that are kept."""
    temporaries_bytes: Bytes = 0
    """Short-lived memory of the backward pass and the update."""
    other_bytes: Bytes = 0
    """Everything else."""

    @property
    def total_bytes(self) -> Bytes:
        """The sum of all columns; the rows' totals add up to the peak."""
        return sum(self[2:])


class Phase(NamedTuple):
    """The memory at the peak by batch size: ``base + per_sample * batch``.

    These are requested bytes, without the resident ones. They follow from two batch sizes, one of
    which is twice the other.
    """

    base_bytes: int
    """Memory at batch size 0."""
    per_sample_bytes: Annotated[float, FieldRule(minimum=0)]
    """Memory for each sample of the batch."""
    first_batch: FromOne
    """The smaller of the two batch sizes; elsewhere the formula is a guess."""
    operation: str
    """The operation's name in the graph."""
    layer: str | None
    """The path of the operation's layer; None if it belongs to no layer."""
    part: Part
    """The part of the step."""


@json_shape(computed=("total_bytes",))
class Moment(NamedTuple):
    """Bytes in use during one operation, by purpose (see ``gpuconf.commands.estimate.step``)."""

    position: Count
    """The operation's position in the step, starting at 0."""
    part: Part
    """The part of the step."""
    layer: str | None
    """The path of the operation's layer; None if it belongs to no layer."""
    operation: str
    """The operation's name in the graph."""
    bytes_by_kind: dict[str, int]
    """Bytes by purpose."""

    @property
    def total_bytes(self) -> Bytes:
        """Total memory in use."""
        return sum(self.bytes_by_kind.values())


class Peak(NamedTuple):
    """Where memory use peaks."""

    operation: str
    """The operation's name in the graph."""
    layer: str | None
    """The path of the operation's layer; None if it belongs to no layer."""
    part: Part
    """The part of the step."""


class Advice(NamedTuple):
    """A change to the model, and its effect when the changed step runs."""

    change: str
    """The change."""
    how: str
    """Code or a command that makes the change."""
    peak_bytes: Bytes
    """The peak after the change."""
    saved_bytes: int
    """The memory saved; negative if the change needs more."""
    fits: bool | None = None
    """Whether the changed step runs under the limit; None without a limit."""


@shown_in_notebooks
class MemoryEstimate(NamedTuple):
    """The bytes that a model needs from the framework's device allocator at a given batch size.

    ``peak_bytes`` is the peak during a step.  ``resident_bytes`` stays allocated between steps
    (weights, optimizer state, metrics). ``largest_batch`` is the largest that fits within
    ``limit_bytes``; None without a limit, 0 if not even one sample fits. ``tier`` is how the number
    was determined: compiled (traced), or run on a simulated GPU or on this machine's GPU. Other
    memory on the GPU, such as the CUDA context, is not included. If the peak does not occur in
    every step, ``building_bytes`` is the additional memory in use while the model is built, or
    ``first_step_bytes`` is the additional memory in use in the first step, in which algorithms are
    tried out and optimizer state stops sharing its zeros.
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
        """Whether this batch fits within the limit; None without a limit."""
        if self.limit_bytes is None or self.largest_batch is None:
            return None
        return self.batch_size <= self.largest_batch

    def __str__(self) -> str:
        """The report, as printed by the command."""
        return text_of(self)
