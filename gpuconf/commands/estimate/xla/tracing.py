"""The memory of a step that XLA compiles: variables, the batch, results, and one block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuconf.basics.units import sized
from gpuconf.commands.estimate.runner.exporting import CapturedVariable
from gpuconf.commands.estimate.runner.program import MeasuredPeaks
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.commands.estimate.step import (
    COMPILED,
    DATA,
    WHOLE,
    LayerShare,
    Operation,
    Piece,
    Step,
    StepMemory,
)
from gpuconf.commands.estimate.tensorflow.attribution import LayersByName
from gpuconf.commands.estimate.xla.assignment import Assignment, read_assignment
from gpuconf.support.keras_api import graphs

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
    # On this machine's GPU the workspaces are in the peaks.
    workspace_bytes = 0 if runner.is_here else runner.workspace_bytes
    found = read_assignment(run.assignment, run.module, workspace_bytes=workspace_bytes)
    pieces = tuple(_pieces(graph, found, counts_unread=counts_unread))
    variables = tuple(each.variable for each in captured)
    name = f"jit({graph.name})"
    at = found.fullest
    return Step(
        batch_size,
        variables,
        (Operation(f"{name}, fullest at {at}" if at else name, WHOLE, layers.of(at)),),
        pieces,
        _memory(run.peaks, found.workspace_bytes, pieces),
        notes=tuple(_notes(found, runner)),
        shares=tuple(_shares(found, layers)),
    )


def _memory(peaks: MeasuredPeaks, workspace_bytes: int, pieces: Sequence[Piece]) -> StepMemory:
    first, *later = (each + workspace_bytes for each in peaks.step_bytes)
    everything = tuple(range(len(pieces)))
    in_use = (max(later),)
    return StepMemory(peaks.built_bytes, first, max(later), in_use, 0, everything)


def _pieces(graph: Any, found: Assignment, *, counts_unread: bool) -> Iterator[Piece]:
    for tensor in graphs.batch_inputs(graph, counts_unread=counts_unread):
        yield Piece(tensor.shape.num_elements() * tensor.dtype.size, 0, 0, DATA)
    for size_bytes in (*found.output_bytes, found.temp_bytes):
        yield Piece(size_bytes, 0, 0, COMPILED)


def _shares(found: Assignment, layers: LayersByName) -> Iterator[LayerShare]:
    """The shares by layer; values from the forward pass are kept for the backward pass."""
    for share in found.shares:
        yield LayerShare(layers.of(share.op_name), _TAPE not in share.op_name, share.size_bytes)


def _notes(found: Assignment, runner: StepRunner) -> Iterator[str]:
    yield f"compiled by TensorFlow's XLA for {runner.target}"
    if runner.support is not None and not runner.support.is_from_wheel:
        yield f"XLA uses libdevice from {runner.support.libdevice}"
    if found.first_step_bytes:
        yield (
            f"while XLA tries algorithms, the first step needs "
            f"{sized(found.first_step_bytes)} or more on top of resident memory"
        )
    if found.has_convolutions and not runner.is_here:
        size = runner.workspace_bytes
        counted = (
            f"with {sized(size)} of cuDNN workspace each"
            if size
            else "without cuDNN workspace (--workspace-limit 256MiB adds that for each)"
        )
        yield f"convolutions are counted {counted}; on a GPU, the fastest algorithm decides it"
