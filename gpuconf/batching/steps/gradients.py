"""The gradients of a batch: computed at once, or accumulated over its parts.

This is Keras's own ``train_step`` without its last line, the weight update.  We do not use
the optimizer's ``gradient_accumulation_steps``, which weights all parts equally and is fixed
before the first step.
"""

from __future__ import annotations

from typing import Any

from gpuconf.batching.steps.forward import Computed, Gradients, computed, logged
from gpuconf.batching.steps.part_losses import saying_why
from gpuconf.batching.steps.step_cache import make_variables
from gpuconf.support.keras_api.stepping import compiled


class GradientParts:
    """Gradients of a model's loss; their sums are on the GPU from the first part on.

    Gradients of embeddings are rows, not full tables. They are kept rather than added up, to match
    the gradients of the whole batch: Keras 3's optimizers treat a repeated row differently from its
    sum.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._of_whole = compiled(model, self._whole)
        self._of_part: Any = None
        self._sums: dict[int, Any] = {}
        self._rows: dict[int, list[Any]] = {}
        self._weight: Any = None

    def make_variables(self, data: Any) -> None:
        """Create all variables that a step on a whole batch needs; see `model_building`."""
        make_variables(self._model, self._of_whole, data)

    def of_whole(self, data: Any) -> Gradients:
        """The gradients of a batch that is computed at once."""
        values, logs = self._of_whole(data)
        return Gradients(list(values), logs=logs)

    def begin(self) -> None:
        """Reset the sums; the first part creates them."""
        import tensorflow as tf

        self._rows = {}
        if self._of_part is None:
            self._of_part = compiled(self._model, self._part)  # a trace refers to its variables
            self._weight = tf.Variable(0.0, trainable=False)
        for each in (*self._sums.values(), self._weight):
            each.assign(tf.zeros_like(each))

    def add(self, data: Any, share: float) -> tuple[Any, Any]:
        """Add a part's gradients; ``share`` is its fraction of the batch's samples.

        Returns the logs and the weight of the part's loss.
        """
        import tensorflow as tf

        with saying_why():
            logs, weight, rows = self._of_part(data, tf.constant(share, tf.float32))
        for number, each in rows.items():
            self._rows.setdefault(int(number), []).append(each)
        return logs, weight

    def summed(self, logs: Any, *, is_sum: bool) -> Gradients:
        """The gradients of all parts since `begin`."""
        values: list[Any] = [None] * len(self._model.trainable_variables)
        for number, total in self._sums.items():
            values[number] = total
        for number, parts in self._rows.items():
            values[number] = _joined(parts)
        return Gradients(values, None if is_sum else self._weight, logs)

    def free(self) -> None:
        """Free the memory used by the sums."""
        self._sums, self._rows = {}, {}
        self._weight = self._of_part = None

    def _whole(self, data: Any) -> Any:
        values, found = self._gradients(data, None)
        return values, logged(self._model, found)

    def _part(self, data: Any, share: Any) -> Any:
        import tensorflow as tf

        values, found = self._gradients(data, share)
        rows = {}
        for number, value in enumerate(values):
            if isinstance(value, tf.IndexedSlices):
                scaled = _wide(value.values) * tf.cast(found.weight, _wide(value.values).dtype)
                rows[str(number)] = tf.IndexedSlices(scaled, value.indices, value.dense_shape)
            elif value is not None:
                wide = _wide(value)
                self._sum(number, wide).assign_add(wide * tf.cast(found.weight, wide.dtype))
        self._weight.assign_add(found.weight)
        return logged(self._model, found), found.weight, rows

    def _sum(self, number: int, value: Any) -> Any:
        """The variable that accumulates this weight's gradients; created during tracing."""
        import tensorflow as tf

        if number not in self._sums:
            with tf.init_scope():
                zeros = tf.zeros(self._model.trainable_variables[number].shape, value.dtype)
                self._sums[number] = tf.Variable(zeros, trainable=False)
        return self._sums[number]

    def _gradients(self, data: Any, share: Any) -> tuple[Any, Computed]:
        """Keras's train_step up to the gradients; ``share`` is None for a whole batch."""
        import tensorflow as tf

        model = self._model
        with tf.GradientTape() as tape:
            found = computed(model, data, share, training=True)
            scaled = _scaled_up(model.optimizer, found.loss)
        values = tape.gradient(scaled, model.trainable_variables)
        return _scaled_down(model.optimizer, values), found


def _joined(parts: list[Any]) -> Any:
    import tensorflow as tf

    return tf.IndexedSlices(
        tf.concat([each.values for each in parts], 0),
        tf.concat([each.indices for each in parts], 0),
        parts[0].dense_shape,
    )


def _scaled_up(optimizer: Any, loss: Any) -> Any:
    """The loss after mixed-precision scaling."""
    for name in ("scale_loss", "get_scaled_loss"):  # Keras 3, Keras 2
        if hasattr(optimizer, name):
            return getattr(optimizer, name)(loss)
    return loss


def _scaled_down(optimizer: Any, gradients: Any) -> Any:
    """Undo the scaling: Keras 3's optimizer does so in its update, but Keras 2 leaves it to us."""
    if hasattr(optimizer, "get_unscaled_gradients"):
        return optimizer.get_unscaled_gradients(gradients)
    return gradients


def _wide(value: Any) -> Any:
    """In float32 or wider: a sum over hundreds of samples overflows float16."""
    import tensorflow as tf

    return tf.cast(value, tf.float32) if value.dtype.size < 4 else value
