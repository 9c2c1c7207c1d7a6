"""What would save memory, and how much: each change is made to the model and traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuconf.errors import GpuconfError
from gpuconf.footprint.keras_models.changes import (
    frozen_but_the_head,
    recomputing,
    with_smaller_inputs,
)
from gpuconf.footprint.memory_estimate import Advice, MemoryEstimate
from gpuconf.footprint.replay import Limit, fits, replay
from gpuconf.footprint.step import Step
from gpuconf.footprint.subject import Subject

_SMALLEST_SHARE = 0.01  # of the peak: less is not worth a change
_LEAN_OPTIMIZERS = ("sgd", "adafactor")  # without state, and with a little


class _Change(NamedTuple):
    """What is changed, how a user does it, and the step then."""

    what: str
    how: str
    trace: Callable[[], Step]


def advice_for(
    subject: Subject, estimate: MemoryEstimate, limit: Limit | None, *, allow_growth: bool
) -> tuple[Advice, ...]:
    """The changes that save something, the best first; a change that fails is left out."""
    found, peak_bytes = [], estimate.peak_bytes
    for change in _changes(subject, estimate):
        try:
            step = change.trace()
        except GpuconfError:
            continue  # not possible for this model
        peak = replay(step, allow_growth=allow_growth).peak_bytes
        if peak_bytes - peak > _SMALLEST_SHARE * peak_bytes:
            suits = None if limit is None else fits(step, limit)
            found.append(Advice(change.what, change.how, peak, peak_bytes - peak, suits))
    return tuple(sorted(found, key=lambda advice: advice.peak_bytes))


def _changes(subject: Subject, estimate: MemoryEstimate) -> list[_Change]:
    found, batch_size = [], estimate.batch_size
    smaller = batch_size // 2
    if estimate.fits is False:
        smaller = estimate.largest_batch or 0
    if smaller and not subject.is_of_one_batch_size:
        how = f"batch_size={smaller}"
        found.append(_Change(f"batch {smaller}", how, lambda: subject.trace(smaller)))
    found.append(_smaller_inputs(subject, batch_size))
    if subject.family.is_keras_3:
        found.append(_mixed_precision(subject, batch_size))
    if subject.choice.training:
        found += [_optimizer(subject, batch_size, name) for name in _LEAN_OPTIMIZERS]
        found += [_recomputation(subject, batch_size), _freezing(subject, batch_size)]
    return found


def _smaller_inputs(subject: Subject, batch_size: int) -> _Change:
    def trace() -> Step:
        with with_smaller_inputs(subject) as smaller:
            return smaller.trace(batch_size)

    return _Change("inputs of 3/4 the side", "keras.Input of the smaller shape", trace)


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
        with recomputing(subject.model, subject.family):
            return subject.trace(batch_size)

    return _Change(
        "recomputation of layers without masks, dropout and normalisation",
        'build them in: with keras.RematScope(mode="full")',
        trace,
    )


def _freezing(subject: Subject, batch_size: int) -> _Change:
    def trace() -> Step:
        # A new optimizer: that of a model that has been trained has its state for all weights.
        own = subject.choice.optimizer or getattr(subject.model, "optimizer", None)
        with frozen_but_the_head(subject.model):
            return subject.changed(optimizer=own).trace(batch_size)

    return _Change(
        "all layers frozen but the last",
        "for layer in model.layers[:-1]: layer.trainable = False",
        trace,
    )
