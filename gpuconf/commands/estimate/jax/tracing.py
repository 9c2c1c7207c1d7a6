"""The memory of a Keras model's step on JAX: variables, the batch, and XLA's single block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuconf.commands.estimate.compile_target import CompileTarget, described_capability
from gpuconf.commands.estimate.jax.compiling import CompiledStep, compiled_step
from gpuconf.commands.estimate.keras_models.data import Batch, Spec
from gpuconf.commands.estimate.keras_models.layer_calls import LayerCalls, variables_of
from gpuconf.commands.estimate.keras_models.preparing import EstimateChoice
from gpuconf.commands.estimate.step import (
    COMPILED,
    DATA,
    WHOLE,
    Operation,
    Piece,
    Step,
    StepMemory,
    Variable,
)
from gpuconf.errors import BackendError
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import KerasFamily
from gpuconf.support.keras_api.variables import bytes_of

# This step's batch, and the next one, which Keras moves to the GPU while the step runs
# (JAXEpochIterator in keras/src/backend/jax/trainer.py).
_BATCHES = 2
_GRANULE_BYTES = 256  # kMinAllocationSize in xla/tsl/framework/bfc_allocator.h
_NO_WORKSPACE = (
    "convolutions use a workspace that cuDNN chooses on the GPU: it is not included here"
)
_NEAREST = "compiled for compute capability {}.{}, the nearest that gpuconf knows"


def trace(
    model: Any,
    family: KerasFamily,
    batch: Batch,
    batch_size: int,
    choice: EstimateChoice,
    *,
    target: CompileTarget,
) -> Step:
    """Compile ``train_step`` or ``predict_step`` for a batch of these specs into a :class:`Step`.

    Raises the same errors as :func:`compiled_step`, and BackendError for a model that is not
    compiled.
    """
    if model.run_eagerly or not model.jit_compile:
        raise BackendError(
            f"{type(model).__name__} runs operation by operation on JAX, but an estimate needs a "
            "step compiled by XLA",
            hint='compile(..., jit_compile="auto"), without run_eagerly=True',
        )
    calls = LayerCalls(model, family)
    with calls.noted(lambda: _NoGraph):
        compiled = compiled_step(model, batch, training=choice.training, target=target)
    known = variables_of(model, calls.by_variable(), training=choice.training)
    name = "train_step" if choice.training else "predict_step"
    notes = [f"compiled by XLA for {target}; nothing was run"]
    if (described := described_capability(target)) != target.compute_capability:
        notes.append(_NEAREST.format(*described))
    if compiled.has_convolutions:
        notes.append(_NO_WORKSPACE)
    pieces = tuple(_pieces(batch, compiled))
    return Step(
        batch_size,
        known.variables,
        (Operation(f"jit({name})", WHOLE),),
        pieces,
        _memory(known.variables, pieces),
        {path: type(layer).__name__ for path, layer in calls.layers.items()},
        tuple(notes),
    )


def _memory(variables: Sequence[Variable], pieces: Sequence[Piece]) -> StepMemory:
    """The memory live at one time, in the multiples of 256 bytes that JAX's allocator hands out."""
    resident = sum(_rounded(each.size_bytes) for each in variables)
    peak = resident + sum(_rounded(each.size_bytes) for each in pieces)
    return StepMemory(resident, peak, peak, (peak,), 0, tuple(range(len(pieces))))


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // _GRANULE_BYTES) * _GRANULE_BYTES


class _NoGraph:
    """A graph without operations, since XLA's operations have no layer."""

    version = 0


def _pieces(batch: Batch, compiled: CompiledStep) -> Iterator[Piece]:
    """Yield the batches, the results, and the block with everything else, all live at once."""
    specs: list[Spec] = nests.leaves((batch.inputs, batch.targets, batch.weights))
    for spec in specs * _BATCHES:
        yield Piece(bytes_of(spec), 0, 0, DATA)
    for size_bytes in (compiled.output_bytes, compiled.temp_bytes):
        yield Piece(size_bytes, 0, 0, COMPILED)
