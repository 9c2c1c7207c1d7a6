"""The update of the weights, of which an out-of-memory leaves no half.

What it writes is held before: on the card, where that costs the memory of what is written, or, if
there is no room for it, as a copy in the computer's memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuconf.batching.card import current_card
from gpuconf.batching.card_batch import attempt
from gpuconf.batching.failures import let_go, tell_beside
from gpuconf.batching.gradient_parts import Gradients, track_loss
from gpuconf.batching.model_state import Held, learnt_state, size_bytes
from gpuconf.batching.step_functions import kept
from gpuconf.terminal import say
from gpuconf.units import mib


class GuardedUpdate:
    """The optimizer's step; either all of it is done, or nothing, and the error raised."""

    def __init__(self, model: Any) -> None:
        import tensorflow as tf

        self._model = model
        # Not by XLA, which would write into the memory that is held.
        update = partial(_update, model)
        self._apply = (
            update if model.run_eagerly else kept(model, "update", lambda: tf.function(update))
        )
        self._written: list[Any] | None = None
        self._on_host: bool | None = None

    def __call__(self, gradients: Gradients) -> None:
        """Apply them to the model's weights."""
        if self._written is None:
            self._written = learnt_state(self._model) + _of_tracker(self._model)
        if self._on_host is None:
            self._on_host = not _has_room_for(self._written)
        held = Held(self._written, on_host=self._on_host)
        work = partial(self._apply, *gradients[:3], samples=_tensor(gradients.samples))
        _, failure = attempt(work)
        if failure is None:
            return
        held.put_back()
        if self._on_host or not failure.is_of_the_card:
            tell_beside(failure.error, "fit: the update of the weights does not fit on the card")
            raise failure.error
        self._on_host = True
        size = mib(size_bytes(self._written))
        say(
            f"fit: {failure.summary}; in the update of the weights, which is undone and tried again"
            f" with {size} of the old ones kept in the computer's memory, not on the card"
        )
        let_go(failure.error)
        del held
        self(gradients)


def _update(model: Any, values: Any, divisor: Any, loss: Any, samples: Any) -> None:
    """What is traced: the gradients divided, the optimizer's step, the loss told to its tracker."""
    import tensorflow as tf

    if divisor is not None:
        values = [None if v is None else v / tf.cast(divisor, v.dtype) for v in values]
        loss = loss / divisor
    variables = model.trainable_variables
    if variables:
        model.optimizer.apply_gradients(zip(values, variables, strict=True))
    if loss is not None:
        track_loss(model, loss, samples)


def _of_tracker(model: Any) -> list[Any]:
    tracker = getattr(model, "_loss_tracker", None)
    return [] if tracker is None else list(tracker.variables)


def _tensor(samples: int | None) -> Any:
    import tensorflow as tf

    return None if samples is None else tf.constant(samples)


def _has_room_for(variables: list[Any]) -> bool:
    """Whether the card can hold old and new values at once, as far as is known."""
    free = current_card().free_bytes
    return free is None or size_bytes(variables) < free
