"""The update of the weights, of which an out-of-memory leaves no half.

What it writes is held before: on the card, where that costs the memory of what is written, or, if
there is no room for it, as a copy in the host's RAM.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuconf.batching.card import current_card
from gpuconf.batching.failures import attempt, explain_beside, let_go
from gpuconf.batching.steps.gradients import Gradients
from gpuconf.batching.steps.kept import kept, make_optimizer_variables
from gpuconf.batching.steps.state import HeldValues, Reader, learnt_state
from gpuconf.keras_api.families import family_of
from gpuconf.keras_api.variables import size_bytes
from gpuconf.terminal import say
from gpuconf.units import sized


class GuardedUpdate:
    """The optimizer's step; either all of it is done, or nothing, and the error raised."""

    def __init__(self, model: Any) -> None:
        import tensorflow as tf

        self._model = model
        is_keras_3 = family_of(model).is_keras_3
        update: Any = partial(_update if is_keras_3 else _in_replica, model)
        if not model.run_eagerly:
            # Not by XLA, which would write into the memory that is held.
            make = partial(tf.function, update, reduce_retracing=True)
            update = kept(model, "update", make)
        self._apply = update
        self._reader: Reader | None = None
        self._on_host: bool | None = None

    def __call__(self, gradients: Gradients) -> None:
        """Apply them to the model's weights."""
        if self._reader is None:
            make_optimizer_variables(self._model)
            self._reader = Reader(self._model, learnt_state(self._model))
        written = self._reader.variables
        if self._on_host is None:
            self._on_host = not _has_room_for(written)
        held = HeldValues(self._reader, on_host=self._on_host)
        try:
            _, failure = attempt(partial(self._apply, gradients.values, gradients.divisor))
        except BaseException:
            held.put_back()
            raise
        if failure is None:
            return
        held.put_back()
        if self._on_host or not failure.is_of_the_card:
            where = "on the card" if failure.is_of_the_card else "in the host's RAM"
            explain_beside(failure.error, f"fit: no room {where} for the update of the weights")
            raise failure.error
        self._on_host = True
        size = sized(size_bytes(written))
        say(
            f"fit: {failure.summary}; in the update of the weights, which is undone and tried again"
            f" with {size} of the old ones kept in the host's RAM, not on the card"
        )
        let_go(failure.error)
        del held
        self(gradients)


def _in_replica(model: Any, values: Any, divisor: Any) -> None:
    """Keras 2 updates inside its strategy alone, Keras 3 outside of it too."""
    model.distribute_strategy.run(partial(_update, model), args=(values, divisor))


def _update(model: Any, values: Any, divisor: Any) -> None:
    """The gradients divided, then the optimizer's step."""
    if divisor is not None:
        wanted = [variable.dtype for variable in model.trainable_variables]
        pairs = zip(values, wanted, strict=True)
        values = [_divided(value, divisor, dtype) for value, dtype in pairs]
    variables = model.trainable_variables
    if variables:
        model.optimizer.apply_gradients(zip(values, variables, strict=True))


def _divided(value: Any, divisor: Any, dtype: Any) -> Any:
    """In the weight's precision; 0 where no sample of the batch counts."""
    import tensorflow as tf

    if value is None:
        return None
    if isinstance(value, tf.IndexedSlices):  # which a division would make a whole table of
        values = tf.math.divide_no_nan(value.values, tf.cast(divisor, value.values.dtype))
        return tf.IndexedSlices(tf.cast(values, dtype), value.indices, value.dense_shape)
    total = tf.convert_to_tensor(value)
    return tf.cast(tf.math.divide_no_nan(total, tf.cast(divisor, total.dtype)), dtype)


def _has_room_for(variables: list[Any]) -> bool:
    """Whether the card can hold old and new values at once, as far as is known."""
    free = current_card().free_bytes
    return free is None or size_bytes(variables) < free
