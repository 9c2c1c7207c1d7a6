"""The losses and metrics that ``compile`` creates, and how a model computes them."""

from __future__ import annotations

import sys
from typing import Any

# In Keras 3 and 2. They decide at the first batch what "accuracy" means; ``compile``
# makes new ones.
_COMPILED = ("_compile_loss", "_compile_metrics", "compiled_loss", "compiled_metrics")


def compiled_parts(model: Any) -> list[Any]:
    """The objects that the last ``compile`` made, None for those that this Keras lacks."""
    return [vars(model).get(name) for name in _COMPILED]


def computed_loss(model: Any, training: bool, **data: Any) -> Any:
    """The loss, as the model computes it; Keras 3 has a wrapper for older signatures."""
    compute = getattr(model, "_compute_loss", None)
    if compute is not None:
        return compute(**data, training=training)
    return model.compute_loss(*data.values())


def forward(model: Any, x: Any, training: bool) -> Any:
    """The outputs; Keras 3 records whether the model's ``call`` takes ``training``."""
    if getattr(model, "_call_has_training_arg", True):
        return model(x, training=training)
    return model(x)


def loss_tracker(model: Any) -> Any:
    """Keras 3's metric for the mean loss; None in Keras 2, where ``compute_loss`` updates its
    own."""
    return getattr(model, "_loss_tracker", None)


def output_trackers(model: Any) -> list[Any]:
    """Keras 3's loss means for several outputs, which weight all batches equally."""
    if not hasattr(model, "_loss_tracker"):
        return []
    return list(getattr(getattr(model, "_compile_loss", None), "metrics", ()))


def trackers_of(model: Any) -> list[Any]:
    """All the loss means, each with a total and a count; created when a loss is computed."""
    if hasattr(model, "_loss_tracker"):
        found = [loss_tracker(model), *output_trackers(model)]
    else:
        losses = getattr(model, "compiled_loss", None)
        names = ("_total_loss_mean", "_loss_metric")  # in different versions
        found = [getattr(losses, name, None) for name in names]
        found += getattr(losses, "_per_output_metrics", None) or ()
    return [each for each in found if each is not None]


def mask_of(tensor: Any) -> Any:
    """The mask that Keras leaves on an output for its losses; None if there is none.

    For objects that accept no attributes, such as JAX's tracers, Keras 3 keeps the mask in a table.
    """
    mask = getattr(tensor, "_keras_mask", None)
    find = getattr(sys.modules.get("keras.src.backend.common.masking"), "get_keras_mask", None)
    return find(tensor) if mask is None and find is not None else mask
