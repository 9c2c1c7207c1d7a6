"""How much each part of a batch counts in the batch's loss, so that the parts add up to it.

A loss that is a mean over the samples is the mean of the parts' losses, weighted by what each
divided by: its samples, its sample weights, or the steps that its mask leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuconf.errors import UsageError
from gpuconf.keras_api.compiled import mask_of

_MEAN = {"sum_over_batch_size", "mean", "auto"}
_WEIGHTED_MEAN = "mean_with_sample_weight"
_SUM = "sum"


class IndivisibleError(UsageError):
    """The loss of a batch cannot be made of its parts' losses."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the batch cannot be taken in parts: {why}", hint="a smaller batch_size=..."
        )


class OwnMasksError(Exception):
    """Raised while a step is traced; without arguments of its own, so that autograph keeps it."""


@contextmanager
def saying_why() -> Iterator[None]:
    """Inside, parts that turn out not to make a whole raise IndivisibleError."""
    try:
        yield
    except OwnMasksError:
        raise IndivisibleError("each of its outputs has a mask of its own, or none") from None


def reductions(loss: Any) -> set[str]:
    """The reductions of what ``compile(loss=...)`` was given; functions and names are means."""
    if loss is None:
        return set()
    if isinstance(loss, dict):
        return {each for part in loss.values() for each in reductions(part)}
    if isinstance(loss, (list, tuple)):
        return {each for part in loss for each in reductions(part)}
    return {str(getattr(loss, "reduction", "sum_over_batch_size") or "none")}


def why_indivisible(model: Any) -> str | None:
    """Why the loss of a batch cannot be made of its parts' losses; None where it can."""
    found = reductions(model.loss)
    if found <= _MEAN or found in ({_SUM}, {_WEIGHTED_MEAN}):
        if found == {_WEIGHTED_MEAN} and _has_several(model):
            return "each of its outputs has a mean of its own sample weights"
        return None
    return f"its losses are reduced by {', '.join(sorted(found))}"


def is_sum(model: Any) -> bool:
    """Whether the loss is the sum over the samples, to which the parts' just add up."""
    return reductions(model.loss) == {_SUM}


def weight_of(model: Any, y_pred: Any, sample_weight: Any, samples: Any) -> Any:
    """What the loss of a part was divided by, a float32 scalar tensor; only the ratio matters.

    Raises OwnMasksError where each output has a mask of its own.
    """
    import tensorflow as tf

    masks = [mask_of(output) for output in tf.nest.flatten(y_pred)]
    if any(mask is not masks[0] for mask in masks):
        raise OwnMasksError
    masks = [mask for mask in masks if mask is not None]
    is_weighted = reductions(model.loss) == {_WEIGHTED_MEAN} and sample_weight is not None
    if not masks and not is_weighted:
        return tf.cast(samples, tf.float32)
    total = tf.cast(masks[0], tf.float32) if masks else tf.constant(1.0)
    for given in tf.nest.flatten(sample_weight) if is_weighted else []:
        total *= _of_rank(tf.cast(given, tf.float32), total.shape.rank)
    return tf.reduce_sum(total)


def _of_rank(weight: Any, rank: int) -> Any:
    """A weight for each sample, made to weigh all steps of a sample where there are some."""
    import tensorflow as tf

    missing = rank - weight.shape.rank
    return tf.reshape(weight, [-1] + [1] * missing) if missing > 0 else weight


def _has_several(model: Any) -> bool:
    return isinstance(model.loss, (dict, list, tuple)) and len(model.loss) > 1
