"""By what a batch size is remembered: all that decides how much memory a step takes."""

from __future__ import annotations

from typing import Any

from gpuconf.keras_api import nests


def model_signature(model: Any, data: Any) -> tuple[Any, ...]:
    """Hashable: the model's kind, its weights, the precision, and one sample's shapes and types."""
    weights = tuple((tuple(each.shape), str(each.dtype)) for each in model.weights)
    trainable = tuple(bool(each.trainable) for each in model.weights)
    return (
        type(model).__qualname__,
        hash((weights, trainable)),
        str(getattr(model.dtype_policy, "name", model.dtype_policy)),
        type(getattr(model, "optimizer", None)).__name__,
        sample_signature(data),
    )


def sample_signature(data: Any) -> tuple[Any, ...]:
    """Shapes and types of one sample."""
    return tuple(
        (tuple(leaf.shape[1:]), str(getattr(leaf, "dtype", type(leaf))))
        for leaf in nests.leaves(data)
    )
