"""The memory of a step that XLA compiles: variables, the batch, results, and one block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpuconf.basics.units import sized
from gpuconf.commands.estimate.keras_models.data import Spec
from gpuconf.commands.estimate.runner.exporting import CapturedVariable
from gpuconf.commands.estimate.runner.program import MeasuredPeaks
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.commands.estimate.step import (
    COMPILED,
    DATA,
    GPU,
    SIMULATED_CARD,
    WHOLE,
    Operation,
    Piece,
    Share,
    Step,
    StepMemory,
    Variable,
)
from gpuconf.commands.estimate.tensorflow.attribution import LayersByName
from gpuconf.commands.estimate.xla.assignment import Assignment, read_assignment
from gpuconf.support.keras_api import graphs
from gpuconf.support.keras_api.variables import bytes_of

_TAPE = "gradient_tape"


def compiled_step(
    graph: Any,
    captured: Sequence[CapturedVariable],
    layers: LayersByName,
    batch_size: int,
    runner: StepRunner,
    *,
    counts_unread: bool,
) -> Step:
    """Run a traced graph that XLA compiles, and return a :class:`Step` with XLA's assignment.

    The peaks are those of the run.  What is in memory at the peak follows from the assignment: the
    batch, the table of results, the separate results, and the block.  Inputs that no operation
    reads are on the GPU too; they are included with ``counts_unread``.
    """
    run = runner.run(graph, captured, is_compiled=True, counts_unread=counts_unread)
    found = read_assignment(run.assignment, run.module, workspace_bytes=runner.workspace_bytes)
    pieces = tuple(_pieces(_data(graph, counts_unread=counts_unread), found))
    variables = tuple(each.variable for each in captured)
    name = f"jit({graph.name})"
    at = found.fullest
    return Step(
        batch_size,
        variables,
        (Operation(f"{name}, fullest at {at}" if at else name, "XLA", WHOLE, layers.of(at)),),
        pieces,
        _memory(run.peaks, found.workspace_bytes, variables, pieces),
        notes=tuple(_notes(found, runner)),
        shares=tuple(_shares(found, layers)),
        tier=GPU if runner.is_here else SIMULATED_CARD,
    )


def _memory(
    peaks: MeasuredPeaks,
    workspace_bytes: int,
    variables: Sequence[Variable],
    pieces: Sequence[Piece],
) -> StepMemory:
    first, *later = (each + workspace_bytes for each in peaks.step_bytes)
    resident_bytes = sum(each.size_bytes for each in variables)
    everything = tuple(range(len(pieces)))
    in_use = (max(later),)
    return StepMemory(peaks.built_bytes, first, max(later), resident_bytes, in_use, 0, everything)


def _data(graph: Any, *, counts_unread: bool) -> Iterator[Spec]:
    inside = {id(tensor) for _, tensor in graph.captures}
    read = graphs.tensors_read(graph)
    for tensor in graph.inputs:
        if id(tensor) not in inside and (counts_unread or id(tensor) in read):
            yield Spec(tuple(tensor.shape), tensor.dtype.name)


def _pieces(data: Iterable[Spec], found: Assignment) -> Iterator[Piece]:
    for spec in data:
        yield Piece(bytes_of(spec), 0, 0, DATA, spec.shape, spec.dtype)
    for size_bytes in (*found.output_bytes, found.temp_bytes):
        yield Piece(size_bytes, 0, 0, COMPILED)


def _shares(found: Assignment, layers: LayersByName) -> Iterator[Share]:
    """The shares by layer; values from the forward pass are kept for the backward pass."""
    for share in found.shares:
        yield Share(layers.of(share.op_name), _TAPE not in share.op_name, share.size_bytes)


def _notes(found: Assignment, runner: StepRunner) -> Iterator[str]:
    yield f"compiled by TensorFlow's XLA for {runner.target}"
    if runner.support is not None and not runner.support.is_from_wheel:
        yield f"XLA uses libdevice from {runner.support.libdevice}"
    if found.first_step_bytes:
        yield (
            f"while XLA tries algorithms, the first step needs "
            f"{sized(found.first_step_bytes)} or more on top of resident memory"
        )
    if found.has_convolutions:
        size = runner.workspace_bytes
        counted = (
            f"with {sized(size)} of cuDNN workspace each"
            if size
            else "without cuDNN workspace (--workspace-limit 256MiB adds that for each)"
        )
        yield f"convolutions are counted {counted}; on a GPU, the fastest algorithm decides it"
