"""Combine the parts' losses into the batch's loss, and correct Keras's trackers.

A loss that is a mean over the samples is the weighted mean of the parts' losses. The weight is the
divisor of each part: the number of its samples, the sum of its sample weights, or the number of its
unmasked steps.

A tracker weights each part by its number of samples. That is correct for a mean over the samples. A
sum, or a mean over unmasked steps, is correct only if the parts are combined first. For the losses
of several outputs, Keras 3 weights all batches equally, even a shorter last one; here all samples
have the same weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.compiled import mask_of, output_trackers, trackers_of
from gpuconf.support.keras_api.families import family_on_any_backend
from gpuconf.support.keras_api.layers import layers_of
from gpuconf.support.keras_api.operations import operations
from gpuconf.support.keras_api.variables import component

_MEAN = {"sum_over_batch_size", "mean", "auto"}
_WEIGHTED_MEAN = "mean_with_sample_weight"
_SUM = "sum"


class IndivisibleError(UsageError):
    """The batch's loss cannot be computed from its parts' losses."""

    @classmethod
    def because(cls, why: str) -> IndivisibleError:
        """Return the error with its hint."""
        return cls(
            f"the batch cannot be processed in parts: {why}", hint="a smaller batch_size=..."
        )


class OwnMasksError(Exception):
    """Raised while a step is traced; takes no arguments, so that autograph keeps it."""


@contextmanager
def saying_why() -> Iterator[None]:
    """Within the context, convert OwnMasksError to IndivisibleError."""
    try:
        yield
    except OwnMasksError:
        why = "each of its outputs has its own mask, or none"
        raise IndivisibleError.because(why) from None


def reductions(loss: Any) -> set[str]:
    """The reductions of the losses in ``compile(loss=...)``; functions and names are means."""
    return {str(getattr(each, "reduction", "sum_over_batch_size") or "none") for each in _in(loss)}


def _in(losses: Any) -> Iterator[Any]:
    """Yield the losses in ``compile(loss=...)``, which may be nested in lists and dicts."""
    if isinstance(losses, dict):
        losses = list(losses.values())
    if isinstance(losses, (list, tuple)):
        for each in losses:
            yield from _in(each)
    elif losses is not None:
        yield losses


def own_loss(model: Any) -> str | None:
    """Return the name of a loss in ``compile(loss=...)`` that is not Keras's own; None if all are.

    It cannot be checked whether it compares samples with each other, as contrastive losses do.
    """
    keras = family_on_any_backend(model).keras.__name__.partition(".")[0]
    for each in _in(model.loss):
        made_by = each if hasattr(each, "__name__") else type(each)
        if callable(each) and made_by.__module__.partition(".")[0] != keras:
            return str(made_by.__name__)
    return None


def why_indivisible(model: Any) -> str | None:
    """Why the batch's loss cannot be computed from its parts' losses; None if it can."""
    found = reductions(model.loss)
    if found <= _MEAN or found in ({_SUM}, {_WEIGHTED_MEAN}):
        if found == {_WEIGHTED_MEAN} and _has_several(model):
            return "each of its outputs has a mean of its own sample weights"
        return _why_penalty_is_of_the_batch(model)
    return f"its losses are reduced by {', '.join(sorted(found))}"


def _why_penalty_is_of_the_batch(model: Any) -> str | None:
    """Keras 3 before 3.14 sums an activity penalty over the samples, and adds it to a mean."""
    keras = family_on_any_backend(model).keras
    first, second = (int(part) for part in keras.__version__.split(".")[:2])
    if first != 3 or second >= 14:
        return None
    named = [each.name for each in layers_of(model) if getattr(each, "activity_regularizer", None)]
    if not named:
        return None
    return f"Keras before 3.14 sums the activity_regularizer of {named[0]} over the whole batch"


def is_sum(model: Any) -> bool:
    """Whether the loss is the sum over the samples, so that the parts' losses are added."""
    return reductions(model.loss) == {_SUM}


def weight_of(model: Any, y_pred: Any, sample_weight: Any, samples: Any) -> Any:
    """The divisor of a part's loss, a float32 scalar; only the ratio matters.

    Raises OwnMasksError if the outputs have different masks.
    """
    ops = operations(model)
    masks = [mask_of(output) for output in nests.leaves(y_pred)]
    if any(mask is not masks[0] for mask in masks):
        raise OwnMasksError
    masks = [mask for mask in masks if mask is not None]
    is_weighted = reductions(model.loss) == {_WEIGHTED_MEAN} and sample_weight is not None
    if not masks and not is_weighted:
        return ops.cast(samples, "float32")
    total = ops.cast(masks[0] if masks else 1.0, "float32")
    for given in nests.leaves(sample_weight) if is_weighted else []:
        weight = ops.cast(given, "float32")
        missing = len(total.shape) - len(weight.shape)
        # Broadcast a weight per sample to all steps of the sample, if there are steps.
        total *= ops.reshape(weight, [-1] + [1] * missing) if missing > 0 else weight
    return ops.sum(total)


def _has_several(model: Any) -> bool:
    return isinstance(model.loss, (dict, list, tuple)) and len(model.loss) > 1


class LossTrackers:
    """The trackers of a model's loss, and of each output's loss."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._ops = operations(model)
        self._before: dict[int, tuple[Any, Any]] = {}
        self._losses: dict[int, Any] = {}
        self._counts: dict[int, Any] = {}
        self._weight: Any = 0.0

    @property
    def are_wrong_of_whole(self) -> bool:
        """Whether the trackers' values need correction even for a whole batch."""
        return bool(output_trackers(self._model))

    def begin(self) -> None:
        """Save the trackers' state before a batch."""
        self._before = {id(each): _state(each) for each in trackers_of(self._model)}
        self._losses, self._counts, self._weight = {}, {}, 0.0

    def add(self, weight: Any) -> None:
        """Record a part whose loss has this weight, and reset the trackers."""
        for tracker in trackers_of(self._model):
            key = id(tracker)
            total, count = self._before.setdefault(key, (0.0, 0.0))
            now_total, now_count = _state(tracker)
            loss = self._ops.divide_no_nan(now_total - total, now_count - count)
            self._losses[key] = self._losses.get(key, 0.0) + loss * weight
            self._counts[key] = self._counts.get(key, 0.0) + (now_count - count)
            _set(tracker, total, count)
        self._weight += weight

    def end(self, samples: int, logs: Any) -> Any:
        """Set the trackers after the last part of a batch; return the corrected logs."""
        divisor = 1.0 if is_sum(self._model) else self._weight
        results = {}
        for tracker in trackers_of(self._model):
            total, count = self._before[id(tracker)]
            was_given = self._ops.cast(self._counts[id(tracker)] > 0, "float32")
            loss = self._ops.divide_no_nan(self._losses[id(tracker)], divisor)
            _set(tracker, total + loss * samples, count + was_given * samples)
            results[tracker.name] = tracker.result()
        if not isinstance(logs, dict):
            return logs
        return {name: results.get(name, value) for name, value in logs.items()}


def _state(tracker: Any) -> tuple[Any, Any]:
    """Copies of the values: PyTorch writes into a variable's tensor."""
    return component(tracker.total) + 0.0, component(tracker.count) + 0.0


def _set(tracker: Any, total: Any, count: Any) -> None:
    component(tracker.total).assign(total)
    component(tracker.count).assign(count)
