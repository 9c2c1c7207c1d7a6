"""The weight update, which an out-of-memory error never leaves half done.

The values that it writes are saved first: on the GPU, which takes as much memory as they do, or,
if they do not fit there, in host RAM.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gpuconf.basics.terminal import say
from gpuconf.basics.units import sized
from gpuconf.batching.card import current_card, free_cached
from gpuconf.batching.failures import attempt, clear_traceback, explain_on_stderr
from gpuconf.batching.steps.forward import Gradients
from gpuconf.batching.steps.state import HeldValues, ReadsVariables
from gpuconf.batching.steps.step_cache import cached_step
from gpuconf.support.keras_api.families import family_of
from gpuconf.support.keras_api.variables import size_bytes


class GuardedUpdate:
    """The optimizer's step: either it completes, or it is undone and the error is raised.

    ``apply`` takes the gradients and their divisor; ``reader`` reads all variables that it writes.
    """

    def __init__(
        self, reader: ReadsVariables, apply: Callable[..., Any], *, framework: str = "tensorflow"
    ) -> None:
        self._apply = apply
        self._reader = reader
        self._framework = framework
        self._on_host: bool | None = None

    def __call__(self, gradients: Gradients) -> None:
        """Apply the gradients to the model's weights."""
        written = self._reader.variables
        if self._on_host is None:
            free = current_card(self._framework).free_bytes
            self._on_host = free is not None and size_bytes(written) >= free
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
            where = "on the GPU" if failure.is_of_the_card else "in the host's RAM"
            explain_on_stderr(failure.error, f"fit: no room {where} for the weight update")
            raise failure.error
        self._on_host = True
        size = sized(size_bytes(written))
        say(
            f"fit: {failure.summary}; the weight update is undone and retried with {size} of the "
            "old values kept in the host's RAM, not on the GPU"
        )
        clear_traceback(failure.error)
        del held
        free_cached()
        self(gradients)


def update_function(model: Any) -> Callable[..., Any]:
    """Apply gradients as TensorFlow does: in one graph, unless the model runs eagerly."""
    import tensorflow as tf

    is_keras_3 = family_of(model).is_keras_3
    update: Any = partial(_update if is_keras_3 else _in_replica, model)
    if model.run_eagerly:
        return update  # type: ignore[no-any-return]
    # Not compiled by XLA, which would overwrite the saved memory.
    made: Callable[..., Any] = cached_step(
        model, "update", partial(tf.function, update, reduce_retracing=True)
    )
    return made


def _in_replica(model: Any, values: Any, divisor: Any) -> None:
    """Update in a replica context of the strategy: Keras 2 requires it, and Keras 3 accepts it.

    Keras 2's optimizers compile updates with XLA if there is a GPU, but not here.
    """
    own = vars(getattr(model.optimizer, "inner_optimizer", model.optimizer))
    if compiles := own.get("jit_compile"):
        own["jit_compile"] = False
    try:
        model.distribute_strategy.run(partial(_update, model), args=(values, divisor))
    finally:
        if compiles:
            own["jit_compile"] = compiles


def _update(model: Any, values: Any, divisor: Any) -> None:
    """Divide the gradients, then run the optimizer's step."""
    if divisor is not None:
        wanted = [variable.dtype for variable in model.trainable_variables]
        pairs = zip(values, wanted, strict=True)
        values = [_divided(value, divisor, dtype) for value, dtype in pairs]
    variables = model.trainable_variables
    if variables:
        model.optimizer.apply_gradients(zip(values, variables, strict=True))


def _divided(value: Any, divisor: Any, dtype: Any) -> Any:
    """In the weight's precision; 0 if all weights in the batch are 0."""
    import tensorflow as tf

    if value is None:
        return None
    if isinstance(value, tf.IndexedSlices):  # a division would make them a whole table
        values = tf.math.divide_no_nan(value.values, tf.cast(divisor, value.values.dtype))
        return tf.IndexedSlices(tf.cast(values, dtype), value.indices, value.dense_shape)
    total = tf.convert_to_tensor(value)
    return tf.cast(tf.math.divide_no_nan(total, tf.cast(divisor, total.dtype)), dtype)
