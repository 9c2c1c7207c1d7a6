"""The purposes of the memory at the peak: allocations by layer and operation.  Pure.

A report for each TensorFlow GPU device compares them with its limit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuconf.basics.json_shape import Bytes, Count, json_shape
from gpuconf.commands.rehearse.runs import RunResult
from gpuconf.commands.rehearse.trace import Tape, TracedAllocation, Usage

WEIGHTS, SLOTS, DATA = "weights", "optimizer state", "data and other"
OTHER = "other computation"
COMPILED = "compiled by XLA"  # activations, gradients, temporaries in one block, and results
FORWARD, BACKWARD, UPDATE = "forward", "backward", "optimizer update"
_OF_STEPS = (FORWARD, BACKWARD, COMPILED)
_GRADIENT = frozenset(("gradient_tape", "gradients"))  # TensorFlow 2 and 1
# Prefixes of a layer's name that mean nothing to its author.
_WRAPPERS = ("StatefulPartitionedCall", "PartitionedCall", "while", "body", "cond", "then", "else")
_DATA_OPS = (
    *("GatherV2", "_EagerConst", "IteratorGetNext", "VarHandleOp", "MakeIterator"),
    *("SameWorkerRecvDone", "ScratchBuffer"),  # copies to the GPU, internal to the device
)
_CALLS = ("StatefulPartitionedCall", "PartitionedCall")
_COMPILED_OPS = ("_XlaRun", "XlaLaunch")
_APPLIES = re.compile("(Resource)?(Sparse)?Apply[A-Z]")  # an optimizer's own operation
_CONVOLUTIONS = (("Conv2D", 4), ("Conv3D", 5), ("DepthwiseConv2d", 4))
_EAGER_BACKWARD = ("Grad", "Backprop")
_EAGER_UPDATE = ("ResourceApply", "Sqrt", "AssignSubVariableOp", "AssignAddVariableOp")


class ProgramNames(NamedTuple):
    """What the agent knows about the program: layers, optimizers, and bytes of each variable."""

    layers: frozenset[str] = frozenset()
    optimizers: frozenset[str] = frozenset()
    weights: tuple[int, ...] = ()
    slots: tuple[int, ...] = ()


@json_shape(hidden=("shape",), computed=("sizes",), renamed={"sizes": "shape"})
class Row(NamedTuple):
    """Allocations of one kind at the peak."""

    what: str
    """The purpose: weights, optimizer state, forward, backward, optimizer update,
    compiled by XLA, other.
    """
    layer: str | None
    """The layer; None if they belong to no layer."""
    op: str | None
    """The operation."""
    shape: str | None
    """The shape of the largest one, as in TensorFlow's trace: ``[128,25,25,144]``."""
    pieces: Count
    """The number of allocations."""
    size_bytes: Bytes
    """Their total size in bytes."""
    is_workspace: bool = False
    """Whether they are temporary memory of a single operation."""

    @property
    def sizes(self) -> tuple[Count, ...] | None:
        """The shape of the largest allocation; None if it is unknown."""
        if self.shape is None:
            return None
        return tuple(int(size) for size in re.findall("[0-9]+", self.shape))


def names_of(report: Mapping[str, Any]) -> ProgramNames:
    """The names in an agent's report."""
    model = report.get("model") or {}
    return ProgramNames(
        frozenset(model.get("layers", ())),
        frozenset(name.lower() for name in model.get("optimizers", ())),
        tuple(model.get("weights", ())),
        tuple(model.get("slots", ())),
    )


def rows_of(usage: Usage, names: ProgramNames, *, first_step_ns: int | None) -> tuple[Row, ...]:
    """Everything live at the peak, largest first; the sizes add up to the peak."""
    weights, slots = Counter(names.weights), Counter(names.slots)
    groups: dict[tuple[str, str | None, str | None, bool], list[TracedAllocation]] = {}
    for each in sorted(
        usage.live_at_peak, key=lambda each: each.time_ns
    ):  # weights are created before their slots
        what, layer, op = place_of(each.op, names)
        # Regardless of the operation: in a session, the initial value becomes the
        # variable's memory.
        is_old = first_step_ns is not None and each.time_ns < first_step_ns <= usage.peak_time_ns
        if is_old or (what not in _OF_STEPS and not each.is_workspace):
            kept = _kept(each, weights, slots, what, first_step_ns)
            what, layer, op = (kept, None, None) if kept else (what, layer, op)
        is_workspace = each.is_workspace and op is not None
        groups.setdefault((what, layer, op, is_workspace), []).append(each)
    rows = [_row(key, members) for key, members in groups.items()]
    return tuple(sorted(rows, key=lambda row: -row.size_bytes))


def _row(key: tuple[str, str | None, str | None, bool], members: Sequence[TracedAllocation]) -> Row:
    what, layer, op, is_workspace = key
    largest = max(members, key=lambda each: each.size_bytes)
    size = sum(each.size_bytes for each in members)
    shape = largest.shape if what in (FORWARD, BACKWARD, UPDATE, OTHER) else None
    return Row(what, layer, op, shape, len(members), size, is_workspace)


def _kept(
    each: TracedAllocation,
    weights: Counter[int],
    slots: Counter[int],
    what: str,
    first_step_ns: int | None,
) -> str | None:
    """Identify a variable by its size, because TensorFlow does not report the variable.

    A weight is created before the first step; in some versions, the optimizer's state is created
    during that step.
    """
    early = first_step_ns is None or each.time_ns < first_step_ns
    if (early or what == UPDATE) and weights[each.asked_bytes] > 0:
        weights[each.asked_bytes] -= 1
        return WEIGHTS
    if slots[each.asked_bytes] > 0:
        slots[each.asked_bytes] -= 1
        return SLOTS
    return None


def place_of(op: str | None, names: ProgramNames) -> tuple[str, str | None, str | None]:
    """Split an operation's name into (purpose, layer, kind of operation).

    ``StatefulPartitionedCall/gradient_tape/sequential_1/c2_1/convolution/Conv2DBackpropFilter`` is
    ("backward", "c2", "Conv2DBackpropFilter").
    """
    parts = [part for part in (op or "").split("/") if part.partition("_")[0] not in _WRAPPERS]
    # A variable's initializer is identified by the variable's size.
    if not op or op.startswith("__inference") or not parts or "Initializer" in parts:
        return DATA, None, None
    kind = _without_number(parts[-1])
    if kind in _COMPILED_OPS:
        return COMPILED, None, None
    is_backward = any(sign in kind for sign in _EAGER_BACKWARD) or not _GRADIENT.isdisjoint(
        map(_without_number, parts)
    )
    inner = [part for part in parts[:-1] if _without_number(part) not in _GRADIENT]
    if _APPLIES.match(kind) or any(
        {part.lower(), _without_number(part).lower()} & names.optimizers for part in inner
    ):
        return UPDATE, None, kind
    layer = next((found for found in (_layer(part, names) for part in inner) if found), None)
    if not is_backward and not inner:
        return _eager(kind), None, kind
    return BACKWARD if is_backward else FORWARD, layer, kind


def _eager(kind: str) -> str:
    """The purpose of an operation outside of any function, derived from its kind alone."""
    if any(sign in kind for sign in _EAGER_BACKWARD):
        return BACKWARD
    if kind.startswith(_EAGER_UPDATE):
        return UPDATE
    return DATA if kind in _DATA_OPS else OTHER


def _layer(part: str, names: ProgramNames) -> str | None:
    """The layer that a part of a name refers to; Keras 3 appends ``_1`` in some places."""
    if part in names.layers:
        return part
    bare = _without_number(part)
    return bare if bare in names.layers else None


def is_kernels_own(op: str | None, shape: Sequence[int]) -> bool:
    """Whether a tensor is scratch memory for the operation's CPU kernel, not one of its results.

    A convolution's results have as many dimensions as images or kernels; the buffer into which its
    CPU kernel unfolds images (im2col) has a different number.
    """
    kind = _without_number((op or "").rpartition("/")[2])
    dimensions = next((count for sign, count in _CONVOLUTIONS if kind.startswith(sign)), None)
    return dimensions is not None and len(shape) != dimensions


def is_compiled_call(op: str) -> bool:
    """Whether an operation that ran out of memory is a call to XLA-compiled code.

    An ordinary function call allocates no memory itself.
    """
    kind = _without_number(op.rpartition("/")[2])
    return kind in (*_COMPILED_OPS, *_CALLS)


def _without_number(name: str) -> str:
    head, _, tail = name.rpartition("_")
    return head if head and tail.isdigit() else name


def first_step_ns(tape: Tape) -> int | None:
    """When the first training step began, according to the agent's mark."""
    return next((mark.time_ns for mark in tape.marks if mark.text == "step 1"), None)


def total_bytes(rows: Iterable[Row], what: str) -> int:
    """The total bytes of one kind."""
    return sum(row.size_bytes for row in rows if row.what == what)


@json_shape(computed=("head_room_bytes",), renamed={"rows": "at_peak"})
@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One TensorFlow GPU device: its limit, and how much of it the program uses."""

    index: Count
    """TensorFlow's number of the device."""
    card: Count | None
    """The number of the simulated GPU that it is on."""
    limit_bytes: Bytes
    """The most memory that TensorFlow may allocate."""
    peak_bytes: Bytes
    """The most memory that was in use."""
    held_bytes: Bytes | None
    """The most memory that the processes held on that GPU, for all its devices and contexts."""
    rows: tuple[Row, ...]
    """The memory in use at the peak, largest first."""

    @property
    def head_room_bytes(self) -> int:
        """The unused part of the limit at the peak."""
        return self.limit_bytes - self.peak_bytes


def devices_of(run: RunResult) -> tuple[DeviceReport, ...]:
    """Each GPU device in the run's trace, and those that TensorFlow created but did not use."""
    if run.tape is None:
        return ()
    known = {device["index"]: device for device in run.trainer.get("devices", ())}
    names, began = names_of(run.trainer), first_step_ns(run.tape)
    reports = {
        usage.index: DeviceReport(
            index=usage.index,
            card=known.get(usage.index, {}).get("card"),
            limit_bytes=usage.limit_bytes,
            peak_bytes=usage.peak_bytes,
            held_bytes=_held(run, known.get(usage.index, {}).get("card")),
            rows=rows_of(usage, names, first_step_ns=began),
        )
        for usage in run.tape.usages
    }
    for index, device in known.items():
        card, limit = device.get("card"), device["limit_bytes"]
        idle = DeviceReport(index, card, limit, 0, _held(run, card), ())
        reports.setdefault(index, idle)
    return tuple(reports[index] for index in sorted(reports))


def _held(run: RunResult, card: int | None) -> int | None:
    """The most memory that the run's processes held on a GPU."""
    return max((held.size_bytes for held in run.held if held.card == (card or 0)), default=None)


def tightest(devices: Sequence[DeviceReport]) -> DeviceReport | None:
    """The device that came closest to its limit."""
    return max(devices, key=lambda each: each.peak_bytes / max(each.limit_bytes, 1), default=None)
