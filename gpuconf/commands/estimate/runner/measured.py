"""A step from its run: what TensorFlow's allocator provided in the last step, and for how long."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from gpuconf.commands.estimate.runner.exporting import CapturedVariable
from gpuconf.commands.estimate.runner.runner import MeasuredRun, StepRunner
from gpuconf.commands.estimate.runner.without_numbers import LOOPS, OPEN_SIZES
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    BACKWARD,
    DATA,
    FORWARD,
    GRADIENT,
    TEMPORARY,
    WEIGHTS,
    WORKSPACE,
    Operation,
    Piece,
    Step,
    StepMemory,
)
from gpuconf.commands.estimate.tensorflow.attribution import LayersByName, parts_by_name
from gpuconf.errors import BackendError
from gpuconf.support.keras_api import graphs
from gpuconf.support.xplane import Event

# Operations that TensorFlow's layout optimizer puts next to an operation of the trace.
_LAYOUT = re.compile(r"-\d+-\w+-LayoutOptimizer$")


class _Weight(NamedTuple):
    """What identifies a weight's gradient among the results of the backward pass."""

    layer: str | None
    size_bytes: int


def measured_step(
    graph: Any,
    captured: Sequence[CapturedVariable],
    layers: LayersByName,
    batch_size: int,
    runner: StepRunner,
) -> Step:
    """Run a traced graph, and return the :class:`Step` with the memory it used."""
    run = runner.run(graph, captured, is_compiled=False)
    if not run.events:
        raise BackendError(
            "the step allocated nothing on the GPU",
            hint="run its operations on the GPU, without tf.device('CPU') around them",
        )
    operations = tuple(_operations(run.events, layers, parts_by_name(graph)))
    variables = tuple(each.variable for each in captured)
    last = max(0, len(operations) - 1)
    data = [Piece(size_bytes, 0, last, DATA) for size_bytes in _data_bytes(graph)]
    weights = {_Weight(each.layer, each.size_bytes) for each in variables if each.kind == WEIGHTS}
    pieces = (*data, *_pieces(run.events, operations, weights))
    memory = _memory(run, pieces)
    notes = () if runner.is_here else tuple(_notes(graph, runner))
    return Step(batch_size, variables, operations, pieces, memory, notes=notes)


def _operations(
    events: Iterable[Event], layers: LayersByName, parts: dict[str, str]
) -> Iterable[Operation]:
    """The operation behind each event; if it is not in the trace, it continues the last part."""
    part = FORWARD
    for event in events:
        name = str(event.stats.get("tf_op") or "")
        traced = _LAYOUT.sub("", name)
        part = parts.get(traced, part)
        yield Operation(traced or "unknown", part, layers.of(traced))


def _pieces(
    events: Sequence[Event], operations: Sequence[Operation], weights: Container[_Weight]
) -> list[Piece]:
    """Each allocation from its event to the one that frees it, in order."""
    begun: dict[object, int] = {}
    ends: dict[int, int] = {}
    for place, event in enumerate(events):
        address = event.stats.get("addr")
        if event.name == "MemoryAllocation":
            begun[address] = place
        elif (first := begun.pop(address, None)) is not None:
            ends[first] = place - 1
    last = len(events) - 1
    found = []
    for place, event in enumerate(events):
        if event.name == "MemoryAllocation":
            size_bytes = int(event.stats.get("requested_bytes", 0))
            is_temporary = event.stats.get("region_type") == "temp"
            kind = WORKSPACE if is_temporary else _kind(size_bytes, operations[place], weights)
            found.append(Piece(size_bytes, place, ends.get(place, last), kind))
    return found


def _kind(size_bytes: int, by: Operation, weights: Container[_Weight]) -> str:
    """The purpose; a backward result in a weight's layer with the weight's size is its gradient."""
    if by.part == FORWARD:
        return ACTIVATION
    is_gradient = by.part == BACKWARD and _Weight(by.layer, size_bytes) in weights
    return GRADIENT if is_gradient else TEMPORARY


def _memory(run: MeasuredRun, pieces: Sequence[Piece]) -> StepMemory:
    in_use = tuple(int(event.stats.get("bytes_allocated", 0)) for event in run.events)
    peak = max(range(len(in_use)), key=in_use.__getitem__, default=0)
    first, *later = run.peaks.step_bytes
    return StepMemory(
        built_bytes=run.peaks.built_bytes,
        first_step_bytes=first,
        step_bytes=max(later),
        in_use_bytes=in_use,
        peak=peak,
        live=tuple(n for n, piece in enumerate(pieces) if piece.first <= peak <= piece.last),
        runs_in_limit=run.runs_in_limit,
    )


def _data_bytes(graph: Any) -> Iterable[int]:
    """The sizes of those batch tensors that are on the GPU."""
    for tensor in graphs.batch_inputs(graph):
        yield tensor.shape.num_elements() * tensor.dtype.size


def _notes(graph: Any, runner: StepRunner) -> Iterable[str]:
    definition = graph.as_graph_def()
    lists = (definition.node, *(each.node_def for each in definition.library.function))
    operations = [node for nodes in lists for node in nodes]
    open_sizes = [each.name for each in operations if each.op in OPEN_SIZES]
    if open_sizes:
        yield (
            f"the size of {len(open_sizes)} results, such as {open_sizes[0]}, depends on the "
            "data: counted as for zeros, and so mostly empty; gpuconf rehearse measures them"
        )
    if loops := [each.name for each in operations if each.op in LOOPS]:
        yield (
            f"there are {len(loops)} loops, such as {loops[0]}: if a computed value ends one, "
            "its iteration count is a guess; gpuconf rehearse measures it"
        )
    if not runner.workspace_bytes and any("Conv" in each.op for each in operations):
        yield (
            "convolutions are counted without cuDNN workspace (--workspace-limit 256MiB adds that "
            "for each); on a GPU, the fastest algorithm decides it"
        )
