"""The memory of a step that XLA compiles: variables, the batch, results, and one block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpuconf.basics.units import sized
from gpuconf.commands.estimate.keras_models.data import Spec
from gpuconf.commands.estimate.runner.exporting import CapturedVariable
from gpuconf.commands.estimate.runner.runner import StepRunner
from gpuconf.commands.estimate.step import (
    COMPILED,
    DATA,
    WHOLE,
    Operation,
    Piece,
    Share,
    Step,
)
from gpuconf.commands.estimate.tensorflow.attribution import LayersByName
from gpuconf.commands.estimate.xla.assignment import Assignment
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
    """Compile a traced graph and return a :class:`Step` with XLA's assignment.

    The ``captured`` variables exist before and after the step, which writes over them.  The
    allocations and their order follow TensorFlow's trace of a run: the batch, the table of results,
    the separate results, and the block.  All are freed at the end.  Inputs that no operation reads
    are on the GPU too; they are included with ``counts_unread``.
    """
    found = runner.compile(graph, captured)
    name = f"jit({graph.name})"
    at = found.fullest
    return Step(
        batch_size,
        tuple(each.variable for each in captured),
        (Operation(f"{name}, fullest at {at}" if at else name, "XLA", WHOLE, layers.of(at)),),
        tuple(_pieces(_data(graph, counts_unread=counts_unread), found)),
        notes=tuple(_notes(found, runner)),
        shares=tuple(_shares(found, layers)),
    )


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
    yield f"compiled by TensorFlow's XLA for {runner.target}; nothing was run"
    if runner.support is not None and not runner.support.is_from_wheel:
        yield f"XLA took libdevice from {runner.support.libdevice}"
    if found.first_step_bytes:
        yield (
            f"while XLA tries algorithms, the first step takes "
            f"{sized(found.first_step_bytes)} or more in addition to what stays"
        )
    if found.has_convolutions:
        size = runner.workspace_bytes
        counted = (
            f"with {sized(size)} each of cuDNN's workspace"
            if size
            else "without cuDNN's workspace (--workspace-limit 256MiB counts that for each)"
        )
        yield f"convolutions are counted {counted}; on a GPU the fastest algorithm decides it"
