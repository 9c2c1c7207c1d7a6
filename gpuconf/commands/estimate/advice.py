"""Finds changes that save memory, by applying each one to the model and tracing it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpuconf.commands.estimate.keras_models.data import inputs_of
from gpuconf.commands.estimate.largest_batch import Limit
from gpuconf.commands.estimate.memory_estimate import Advice, MemoryEstimate
from gpuconf.commands.estimate.scripts.step_function import StepFunction
from gpuconf.commands.estimate.step import Step
from gpuconf.commands.estimate.subject import Subject
from gpuconf.commands.estimate.tensorflow.abstract_variables import abstract_variables
from gpuconf.commands.estimate.traced_steps import TracedSteps
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import KerasFamily
from gpuconf.support.keras_api.layers import (
    attribute_set,
    is_leaf,
    layers_of,
    leaves_with_weights,
    recomputed,
)

_SMALLEST_SHARE = 0.01  # of the peak; smaller savings are not worth a change
_LEAN_OPTIMIZERS = ("sgd", "adafactor")  # without state, and with little
_SMALLER_SIDE = 0.75  # of the original size


class _Change(NamedTuple):
    """A change, how a user makes it, and the resulting step."""

    what: str
    how: str
    trace: Callable[[], Step]


def advice_for(
    steps: TracedSteps,
    estimate: MemoryEstimate,
    limit: Limit | None,
) -> tuple[Advice, ...]:
    """Return the changes that save memory, the best first; changes that fail are left out."""
    found, peak_bytes = [], estimate.peak_bytes
    for change in _changes(steps, estimate):
        steps.progress(f"trying a change: {change.what}")
        try:
            step = change.trace()
        except GpuconfError:
            continue  # not possible for this model
        peak = step.memory.peak_bytes
        if peak_bytes - peak > _SMALLEST_SHARE * peak_bytes:
            suits = None if limit is None else limit.fits(step)
            found.append(Advice(change.what, change.how, peak, peak_bytes - peak, suits))
    return tuple(sorted(found, key=lambda advice: advice.peak_bytes))


def _changes(steps: TracedSteps, estimate: MemoryEstimate) -> list[_Change]:
    subject = steps.subject
    found, batch_size = [], estimate.batch_size
    smaller = batch_size // 2
    if estimate.fits is False:
        smaller = estimate.largest_batch or 0
    if smaller and not subject.is_of_one_batch_size:
        how = f"batch_size={smaller}"
        found.append(_Change(f"batch {smaller}", how, lambda: steps.trace(smaller)))
    if isinstance(subject, StepFunction):
        return found  # the script itself sets its model, optimizer and precision
    found.append(_smaller_inputs(subject, batch_size))
    if subject.family.is_keras_3:
        found.append(_mixed_precision(subject, batch_size))
    if subject.choice.training:
        found += [_optimizer(subject, batch_size, name) for name in _LEAN_OPTIMIZERS]
        found += [_recomputation(subject, batch_size), _freezing(subject, batch_size)]
    return found


def _smaller_inputs(subject: Subject, batch_size: int) -> _Change:
    def trace() -> Step:
        with _with_smaller_inputs(subject) as smaller:
            return smaller.trace(batch_size)

    return _Change("inputs with 3/4 the side length", "keras.Input with the smaller shape", trace)


def _mixed_precision(subject: Subject, batch_size: int) -> _Change:
    return _Change(
        "mixed precision",
        'keras.mixed_precision.set_global_policy("mixed_float16")',
        lambda: subject.changed(policy="mixed_float16").trace(batch_size),
    )


def _optimizer(subject: Subject, batch_size: int, name: str) -> _Change:
    return _Change(
        f"optimizer {name}",
        f'compile(optimizer="{name}", ...)',
        lambda: subject.changed(optimizer=name).trace(batch_size),
    )


def _recomputation(subject: Subject, batch_size: int) -> _Change:
    def trace() -> Step:
        with _recomputing(subject.model, subject.family):
            return subject.trace(batch_size)

    return _Change(
        "recomputation of layers without masks, dropout, or normalization",
        'build them in: with keras.RematScope(mode="full")',
        trace,
    )


def _freezing(subject: Subject, batch_size: int) -> _Change:
    def trace() -> Step:
        # A new optimizer: a trained model's own one has state for all weights.
        own = subject.choice.optimizer or getattr(subject.model, "optimizer", None)
        with _frozen_but_the_head(subject.model):
            return subject.changed(optimizer=own).trace(batch_size)

    return _Change(
        "all layers but the last frozen",
        "for layer in model.layers[:-1]: layer.trainable = False",
        trace,
    )


@contextmanager
def _frozen_but_the_head(model: Any) -> Iterator[None]:
    """Train only the last layer that has weights, as in transfer learning.

    Raises UsageError if there is no other layer to freeze.
    """
    leaves = leaves_with_weights(model)
    last = {id(variable) for variable in model.trainable_variables[-1:]}
    frozen = [layer for layer in leaves if not last & {id(weight) for weight in layer.weights}]
    if not frozen or len(frozen) == len(leaves):
        raise UsageError("there is one layer with weights", hint="nothing can be frozen")
    with attribute_set(frozen, "trainable", False):
        yield


@contextmanager
def _recomputing(model: Any, family: KerasFamily) -> Iterator[None]:
    """Make layers recompute their results in the backward pass instead of keeping them.

    Skips layers whose call takes ``training`` or a mask, which Keras cannot recompute in a traced
    step.  Raises UsageError if this Keras cannot recompute any.
    """
    with recomputed([each for each in layers_of(model) if _can_recompute(each)], family):
        yield


def _can_recompute(layer: Any) -> bool:
    return is_leaf(layer) and not {"training", "mask"} & set(
        inspect.signature(layer.call).parameters
    )


@contextmanager
def _with_smaller_inputs(subject: Subject) -> Iterator[Subject]:
    """Yield a subject whose inputs have 3/4 of the side length: images, videos, sequences.

    The model is rebuilt without memory.  Raises UsageError if it cannot be.
    """
    specs = inputs_of(subject.model, 1, subject.input_shape)
    leaves = nests.leaves(specs)
    if len(leaves) != 1 or len(leaves[0].shape) < 3:
        raise UsageError("there are no images to make smaller", hint="nothing to do")
    shape = leaves[0].shape
    smaller = [*(round(side * _SMALLER_SIDE) for side in shape[1:-1]), shape[-1]]
    if subject.input_shape is not None:
        yield dataclasses.replace(subject, input_shape=tuple(smaller))
        return
    keras = subject.family.keras
    with abstract_variables():
        new_input = keras.Input(shape=tuple(smaller), dtype=leaves[0].dtype)
        try:
            model = keras.models.clone_model(subject.model, input_tensors=[new_input])
        except Exception as error:  # any kind, from the model's layers
            reason = type(error).__name__
            raise UsageError(f"it cannot be built for smaller inputs: {reason}") from error
    choice = subject.choice
    if choice.training:
        own = subject.model
        choice = choice._replace(
            optimizer=choice.optimizer or getattr(own, "optimizer", None),
            loss=choice.loss or getattr(own, "loss", None),
        )
    yield dataclasses.replace(subject, model=model, choice=choice)
