"""Estimates the training run that a script was about to start."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpuconf.commands.estimate.estimating import (
    RunOptions,
    estimate,
    estimate_subject,
    step_runner,
)
from gpuconf.commands.estimate.memory_estimate import MemoryEstimate
from gpuconf.commands.estimate.scripts.step_function import StepFunction
from gpuconf.commands.estimate.scripts.training import Training
from gpuconf.errors import UsageError

# Options of `estimate` that change a model, but cannot change a function.
_OF_A_MODEL = ("optimizer", "loss", "mixed_precision", "input_shape")


def estimate_training(found: Training, batch_size: int, **options: Any) -> MemoryEstimate:
    """Return the estimate at this batch size; takes the options of :func:`gpuconf.estimate`.

    Raises UsageError for an option that a script's own step does not support.
    """
    if isinstance(found.subject, StepFunction):
        return _of_function(found.subject, batch_size, **options)
    for name in ("optimizer", "loss"):
        options[name] = options[name] or getattr(found, name)
    if options["jit"] is None:
        options["jit"] = found.jit
    data = found.data if options["input_shape"] is None else None
    estimated = estimate(found.subject, batch_size, data=data, arrays=found.arrays, **options)
    return _of_whole_set(estimated, found.examples)


def _of_whole_set(estimated: MemoryEstimate, examples: int | None) -> MemoryEstimate:
    """Add a note if the largest batch would exceed the number of examples."""
    largest = estimated.largest_batch
    if examples is None or largest is None or largest < examples:
        return estimated
    note = f"fit() gets {examples} samples: all of them fit in one batch"
    return estimated._replace(notes=(*estimated.notes, note))


def _of_function(
    step: StepFunction, batch_size: int, *, training: bool, **options: Any
) -> MemoryEstimate:
    refused = [name for name in _OF_A_MODEL if options.pop(name) is not None]
    refused += [] if training else ["inference"]
    if refused:
        raise UsageError(
            f"--{refused[0].replace('_', '-')} requires a model, but the script trains "
            "with its own training step",
            hint="change it in the script, or name the function that builds the model",
        )
    how = RunOptions(**options)
    wants_compiling = step.is_compiled if how.jit is None else how.jit
    with step_runner(how) as runner:
        step = dataclasses.replace(step, runner=runner, wants_compiling=wants_compiling)
        return estimate_subject(step, batch_size, how)
