"""Gradients of a model on JAX: one compiled pure function, and the sums of its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

from gpuconf.batching.steps.forward import Gradients, computed, logged
from gpuconf.batching.steps.part_losses import saying_why
from gpuconf.batching.steps.step_cache import cached_step
from gpuconf.support.keras_api import nests

Values = dict[str, list[Any]]

# What Keras's loops pass and expect back, in this order.
OF_LOOPS = {
    "train": ("trainable", "non_trainable", "optimizer", "metrics"),
    "test": ("trainable", "non_trainable", "metrics"),
    "predict": ("trainable", "non_trainable"),
}


class HasValues(Protocol):
    """A model's current values by kind, and pure functions of them."""

    values: Values

    def pure(self, function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
        """Make a function pure: it takes the model's values as an argument."""

    def compiled(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Compile the function as Keras would."""


class JaxGradients:
    """Gradients of a model's loss, and their sums; see `engines.GradientSums`."""

    def __init__(self, engine: HasValues, model: Any) -> None:
        self._engine = engine
        self._model = model
        self._sums: list[Any] | None = None
        self._weight: Any = 0.0

    def of_whole(self, data: Any) -> Gradients:
        """The gradients of a batch that is computed at once."""
        values, logs, _ = self._computed(data, None)
        return Gradients(values, logs=logs)

    def begin(self) -> None:
        """Reset the sums, which do not exist until the first part."""
        self.free()

    def add(self, data: Any, share: float) -> tuple[Any, Any]:
        """Add a part's gradients; return the logs and the weight of the part's loss."""
        with saying_why():
            values, logs, weight = self._computed(data, share)
        sums = self._sums
        self._sums = None  # donated, even if the call fails
        self._sums = finished(self._add(sums, values, weight))
        self._weight = self._weight + weight
        return logs, weight

    def summed(self, logs: Any, *, is_sum: bool) -> Gradients:
        """The gradients of all parts since `begin`."""
        wanted = [value.dtype for value in self._engine.values["trainable"]]
        total = 1.0 if is_sum else float(self._weight)
        values = [
            (each / total if total else each * 0.0).astype(dtype)
            for each, dtype in zip(self._sums or (), wanted, strict=True)
        ]
        self.free()
        return Gradients(values, logs=logs)

    def free(self) -> None:
        """Free the memory used by the sums."""
        self._sums, self._weight = None, 0.0

    def _computed(self, data: Any, share: float | None) -> tuple[list[Any], Any, Any]:
        engine = self._engine
        function = self._of_whole if share is None else self._of_part
        found = function(engine.values["trainable"], engine.values, on_device(data), share or 0.0)
        values, (logs, weight, changed) = finished(found)
        engine.values |= {**changed, "trainable": engine.values["trainable"]}
        return values, logs, weight

    @cached_property
    def _of_whole(self) -> Any:
        return cached_step(self._model, "gradients", partial(self._made, is_whole=True))

    @cached_property
    def _of_part(self) -> Any:
        return cached_step(self._model, "gradients in parts", partial(self._made, is_whole=False))

    @cached_property
    def _add(self) -> Any:
        return cached_step(
            self._model, "sums", lambda: self._engine.compiled(_added, donate_argnums=0)
        )

    def _made(self, *, is_whole: bool) -> Any:
        """Compile a function of the weights, all values, a batch and its share."""
        import jax

        model = self._model

        def scaled_loss(data: Any, share: Any) -> tuple[Any, Any]:
            found = computed(model, data, None if is_whole else share, training=True)
            loss = found.loss
            if model.optimizer is not None:
                loss = model.optimizer.scale_loss(loss)
            # Metrics are computed alongside the gradients, but not differentiated.
            aside = found._replace(
                loss=jax.lax.stop_gradient(found.loss),
                y_pred=nests.mapped(_without_gradient, found.y_pred),
            )
            return loss, (logged(model, aside), found.weight)

        pure = self._engine.pure(scaled_loss, OF_LOOPS["train"])

        def of_weights(trainable: Any, values: Values, data: Any, share: Any) -> Any:
            (loss, (logs, weight)), changed = pure({**values, "trainable": trainable}, data, share)
            return loss, (logs, weight, {**changed, "trainable": []})

        return self._engine.compiled(jax.grad(of_weights, has_aux=True))


def _without_gradient(output: Any) -> Any:
    import jax

    return jax.lax.stop_gradient(output)


def _added(sums: list[Any] | None, values: list[Any], weight: Any) -> list[Any]:
    """In float32 or wider: a sum over hundreds of samples overflows float16."""
    import jax.numpy as jnp

    wide = [each.astype(jnp.promote_types(each.dtype, jnp.float32)) * weight for each in values]
    return wide if sums is None else [one + other for one, other in zip(sums, wide, strict=True)]


def on_device(data: Any) -> Any:
    """Put a batch on JAX's device."""
    import jax

    return nests.mapped(jax.device_put, data)


def finished(found: Any) -> Any:
    """Wait for JAX's asynchronous results, because only then are errors raised."""
    import jax

    return jax.block_until_ready(found)
