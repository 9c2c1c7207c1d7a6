"""The gradients of a batch: of the whole at once, or added up over its parts.

This is Keras's own ``train_step`` without its last line, the update of the weights.  The sum is
ours and not the optimizer's ``gradient_accumulation_steps``, which counts all parts alike and is
fixed before the first step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.batching import nests, part_weights
from gpuconf.batching.stepping import compiled


class Gradients(NamedTuple):
    """What an update needs: gradients in the order of the weights, divided by ``divisor``.

    ``loss`` and ``samples`` are for the tracker of the loss, None where it knows already.
    """

    values: list[Any]
    divisor: Any = None
    loss: Any = None
    samples: int | None = None
    logs: Any = None


class GradientParts:
    """Gradients of a model's loss; sums of them live on the card from the first part on."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._of_whole = compiled(model, self._whole)
        self._of_part: Any = None
        self._sums: list[Any] | None = None
        self._loss: Any = None
        self._weight: Any = None

    def of_whole(self, data: Any) -> Gradients:
        """The gradients of a batch that is taken at once."""
        values, logs = self._of_whole(data)
        return Gradients(list(values), logs=logs)

    def begin(self) -> None:
        """Sums begin at zero; made where there are none."""
        import tensorflow as tf

        if self._sums is None:
            self._of_part = compiled(self._model, self._part)  # a trace holds its variables
            self._loss, self._weight = tf.Variable(0.0), tf.Variable(0.0)
            self._sums = [
                tf.Variable(tf.zeros(each.shape, each.dtype), trainable=False)
                for each in self._model.trainable_variables
            ]
            return
        for each in (*self._sums, self._loss, self._weight):
            each.assign(tf.zeros_like(each))

    def add(self, data: Any, share: float) -> Any:
        """Add a part's gradients; ``share`` is its part of the batch's samples.  Gives the logs."""
        import tensorflow as tf

        return self._of_part(data, tf.constant(share, tf.float32))

    def summed(self, samples: int, logs: Any) -> Gradients:
        """The gradients of all the parts since `begin`."""
        assert self._sums is not None
        is_sum = part_weights.is_sum(self._model)
        divisor = None if is_sum else self._weight
        return Gradients(list(self._sums), divisor, self._loss, samples, logs)

    def free(self) -> None:
        """Give the sums' memory back."""
        self._sums = self._loss = self._weight = self._of_part = None

    def _whole(self, data: Any) -> Any:
        values, loss, _, samples, (x, y, y_pred, sample_weight) = self._gradients(data, None)
        track_loss(self._model, loss, samples)
        logs = self._model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
        return values, logs

    def _part(self, data: Any, share: Any) -> Any:
        assert self._sums is not None
        values, loss, weight, _, (x, y, y_pred, sample_weight) = self._gradients(data, share)
        for total, value in zip(self._sums, values, strict=True):
            if value is not None:
                _add(total, value, weight)
        self._loss.assign_add(loss * weight)
        self._weight.assign_add(weight)
        return self._model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def _gradients(self, data: Any, share: Any) -> Any:
        """Keras's train_step up to the gradients; ``share`` is None for a whole batch."""
        import tensorflow as tf

        model = self._model
        x, y, sample_weight = _unpacked(data)
        samples = tf.shape(nests.leaves(x)[0])[0]
        with tf.GradientTape() as tape:
            y_pred = forward(model, x)
            loss = loss_of(model, x, y, y_pred, sample_weight)
            if share is not None and part_weights.is_sum(model):
                # Each part has the whole penalty for the weights, which counts once.
                loss -= (1.0 - share) * _sum_of(model.losses)
                weight = tf.constant(1.0)
            else:
                weight = part_weights.weight_of(model, y_pred, sample_weight, samples)
            scaled = scaled_up(model.optimizer, loss)
        values = tape.gradient(scaled, model.trainable_variables)
        values = scaled_down(model.optimizer, values)
        return values, tf.cast(loss, tf.float32), weight, samples, (x, y, y_pred, sample_weight)


def forward(model: Any, x: Any) -> Any:
    """The model's outputs as in training."""
    if getattr(model, "_call_has_training_arg", True):
        return model(x, training=True)
    return model(x)


def loss_of(model: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
    """The loss, as the model computes it; Keras 3 has a wrapper for older signatures."""
    compute = getattr(model, "_compute_loss", None)
    if compute is not None:
        return compute(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
    return model.compute_loss(x, y, y_pred, sample_weight)


def track_loss(model: Any, loss: Any, samples: Any) -> None:
    """Tell Keras 3's tracker of the loss; Keras 2's has been told by ``compute_loss``."""
    tracker = getattr(model, "_loss_tracker", None)
    if tracker is not None:
        tracker.update_state(loss, sample_weight=samples)


def scaled_up(optimizer: Any, loss: Any) -> Any:
    """The loss as mixed precision scales it."""
    for name in ("scale_loss", "get_scaled_loss"):  # of Keras 3, of Keras 2
        if hasattr(optimizer, name):
            return getattr(optimizer, name)(loss)
    return loss


def scaled_down(optimizer: Any, gradients: Any) -> Any:
    """Keras 3's optimizer does it in its update, Keras 2's leaves it to the step."""
    if hasattr(optimizer, "get_unscaled_gradients"):
        return optimizer.get_unscaled_gradients(gradients)
    return gradients


def _add(total: Any, value: Any, weight: Any) -> None:
    import tensorflow as tf

    weight = tf.cast(weight, total.dtype)
    if isinstance(value, tf.IndexedSlices):
        total.scatter_add(tf.IndexedSlices(value.values * weight, value.indices))
    else:
        total.assign_add(value * weight)


def _sum_of(losses: Any) -> Any:
    import tensorflow as tf

    return tf.add_n([tf.cast(each, tf.float32) for each in losses]) if losses else 0.0


def _unpacked(data: Any) -> tuple[Any, Any, Any]:
    if not isinstance(data, (tuple, list)):
        return data, None, None
    return (*data, None, None)[:3] if len(data) < 3 else tuple(data)
