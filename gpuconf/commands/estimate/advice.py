"""Finds changes that save memory, by applying each one to the model and tracing it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from gpuconf.commands.estimate.estimate_request import EstimateRequest
from gpuconf.commands.estimate.keras_models.data import inputs_of
from gpuconf.commands.estimate.largest_batch import Limit
from gpuconf.commands.estimate.memory_estimate import Advice, MemoryEstimate
from gpuconf.commands.estimate.scripts.step_function import StepFunction
from gpuconf.commands.estimate.step import Step
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


def _changes(steps: TracedSteps, estimate: MemoryEstimate) -> Iterator[_Change]:
    subject, batch_size = steps.subject, estimate.batch_size
    smaller = batch_size // 2
    if estimate.fits is False:
        smaller = estimate.largest_batch or 0
    if smaller and not subject.is_of_one_batch_size:
        yield _Change(f"batch {smaller}", f"batch_size={smaller}", lambda: steps.trace(smaller))
    if isinstance(subject, StepFunction):
        return  # the script itself sets its model, optimizer and precision

    def changed(**options: Any) -> Callable[[], Step]:
        return lambda: subject.changed(**options).trace(batch_size)

    yield _Change(
        "inputs with 3/4 the side length",
        "keras.Input with the smaller shape",
        lambda: _with_smaller_inputs(subject).trace(batch_size),
    )
    if subject.family.is_keras_3:
        how = 'keras.mixed_precision.set_global_policy("mixed_float16")'
        yield _Change("mixed precision", how, changed(policy="mixed_float16"))
    if not subject.choice.training:
        return
    for name in _LEAN_OPTIMIZERS:
        how = f'compile(optimizer="{name}", ...)'
        yield _Change(f"optimizer {name}", how, changed(optimizer=name))
    yield _Change(
        "recomputation of layers without masks, dropout, or normalization",
        'build them in: with keras.RematScope(mode="full")',
        _within(_recomputing(subject.model, subject.family), changed()),
    )
    # With a new optimizer: a trained model's own one has state for all weights.
    own = subject.choice.optimizer or getattr(subject.model, "optimizer", None)
    yield _Change(
        "all layers but the last frozen",
        "for layer in model.layers[:-1]: layer.trainable = False",
        _within(_frozen_but_the_head(subject.model), changed(optimizer=own)),
    )


def _within(context: AbstractContextManager[None], trace: Callable[[], Step]) -> Callable[[], Step]:
    def traced() -> Step:
        with context:
            return trace()

    return traced


@contextmanager
def _frozen_but_the_head(model: Any) -> Iterator[None]:
    """Train only the last layer that has weights, as in transfer learning.

    Raises UsageError if there is no other layer to freeze.
    """
    leaves = leaves_with_weights(model)
    last = {id(variable) for variable in model.trainable_variables[-1:]}
    frozen = [layer for layer in leaves if not last & {id(weight) for weight in layer.weights}]
    if not frozen or len(frozen) == len(leaves):
        raise UsageError("there is only one layer with weights", hint="nothing can be frozen")
    with attribute_set(frozen, "trainable", False):
        yield


@contextmanager
def _recomputing(model: Any, family: KerasFamily) -> Iterator[None]:
    """Make layers recompute their results in the backward pass instead of keeping them.

    Skips layers whose call takes ``training`` or a mask, which Keras cannot recompute in a traced
    step.  Raises UsageError if this Keras version cannot recompute any layers.
    """
    with recomputed([each for each in layers_of(model) if _can_recompute(each)], family):
        yield


def _can_recompute(layer: Any) -> bool:
    return is_leaf(layer) and not {"training", "mask"} & set(
        inspect.signature(layer.call).parameters
    )


def _with_smaller_inputs(subject: EstimateRequest) -> EstimateRequest:
    """Return a subject whose inputs have 3/4 of the side length: images, videos, sequences.

    The model is rebuilt without allocating memory.  Raises UsageError if it cannot be rebuilt.
    """
    specs = inputs_of(subject.model, 1, subject.input_shape)
    leaves = nests.leaves(specs)
    if len(leaves) != 1 or len(leaves[0].shape) < 3:
        raise UsageError("there are no images to make smaller", hint="nothing to do")
    shape = leaves[0].shape
    smaller = [*(round(side * _SMALLER_SIDE) for side in shape[1:-1]), shape[-1]]
    if subject.input_shape is not None:
        return dataclasses.replace(subject, input_shape=tuple(smaller))
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
    return dataclasses.replace(subject, model=model, choice=choice)
