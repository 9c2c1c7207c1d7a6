"""The forward pass and the weight of its loss, the same on each Keras backend.

This is Keras's own ``train_step`` and ``test_step``, without the gradients and the update.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.batching.steps import part_losses
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.compiled import computed_loss, forward, loss_tracker
from gpuconf.support.keras_api.operations import operations


class Gradients(NamedTuple):
    """The input of an update: gradients in the weights' order, to be divided by ``divisor``."""

    values: list[Any]
    divisor: Any = None
    logs: Any = None


class Computed(NamedTuple):
    """The results of a forward pass, for the gradients and for the metrics."""

    loss: Any
    weight: Any  # the divisor of the loss
    samples: Any
    x: Any
    y: Any
    y_pred: Any
    sample_weight: Any


def computed(model: Any, data: Any, share: Any, *, training: bool) -> Computed:
    """Outputs and loss of a batch, or of a part with this ``share`` of its samples."""
    ops = operations(model)
    x, y, sample_weight = _unpacked(data)
    samples = ops.shape(nests.leaves(x)[0])[0]
    y_pred = forward(model, x, training)
    loss = computed_loss(model, training, x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
    weight = ops.cast(1.0, "float32")
    if share is not None and part_losses.is_sum(model):
        # Each part includes the whole weight penalty, which must count once.
        loss -= (1.0 - share) * sum(ops.cast(each, "float32") for each in model.losses)
    elif share is not None:
        weight = part_losses.weight_of(model, y_pred, sample_weight, samples)
    return Computed(loss, weight, samples, x, y, y_pred, sample_weight)


def logged(model: Any, found: Computed) -> Any:
    """Update the trackers and metrics; return the logs."""
    tracker = loss_tracker(model)  # in Keras 2, compute_loss updates it
    if tracker is not None:
        tracker.update_state(found.loss, sample_weight=found.samples)
    return model.compute_metrics(found.x, found.y, found.y_pred, sample_weight=found.sample_weight)


def evaluated_part(model: Any, data: Any, share: Any) -> tuple[Any, Any]:
    """Keras's ``test_step`` for a part of a batch: return its logs and the weight of its loss."""
    found = computed(model, data, share, training=False)
    return logged(model, found), found.weight


def _unpacked(data: Any) -> tuple[Any, Any, Any]:
    if not isinstance(data, (tuple, list)):
        return data, None, None
    return (*data, None, None)[:3] if len(data) < 3 else tuple(data)
