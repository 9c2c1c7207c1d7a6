"""Keras 3 steps on JAX: pure functions; keeping the model's old values is enough to undo one.

Keras's own steps donate the values, so a failed step loses the weights.  These steps do not donate,
so a failed step leaves everything unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from typing import Any

from gpuconf.basics.terminal import say
from gpuconf.batching.failures import attempt, clear_traceback, explain_on_stderr
from gpuconf.batching.steps.forward import Gradients, evaluated_part
from gpuconf.batching.steps.jax_gradients import (
    OF_LOOPS,
    JaxGradients,
    Values,
    finished,
    on_device,
)
from gpuconf.batching.steps.part_losses import saying_why
from gpuconf.batching.steps.step_cache import cached_step
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import family_on_any_backend
from gpuconf.support.keras_api.layers import layers_of
from gpuconf.support.keras_api.stepping import Step, calling


class JaxEngine:
    """See `engines.Engine`; ``values`` are the model's current values by kind."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._scope = family_on_any_backend(model).keras.StatelessScope
        self.values: Values = {}
        self._written_at_end: tuple[str, ...] = ()
        self.state = _ModelState(self)
        self.gradients = JaxGradients(self, model)

    def begin(self, kind: str, data: Any) -> None:
        """Prepare ``predict``, which has our own loop; Keras's loops pass the values themselves."""
        if kind != "predict":
            return
        if not all(layer.built for layer in layers_of(self._model, include_self=True)):
            with self._scope():  # as in Keras
                self._model(data[0] if isinstance(data, tuple) else data)
        self.values = self._values_of(kind)
        self._written_at_end = ("non_trainable",)

    def calling(self, **steps: Step) -> AbstractContextManager[None]:
        """Keras's loops pass the state and an iterator, and expect the new state."""
        given = {kind: self._in_loop(kind, step) for kind, step in steps.items()}
        return calling(self._model, **given)

    def _in_loop(self, kind: str, step: Step) -> Callable[[Any, Iterator[Any]], Any]:
        names = OF_LOOPS[kind]

        def function(state: Sequence[Any], iterator: Iterator[Any]) -> Any:
            self.values = {name: list(part) for name, part in zip(names, state, strict=True)}
            logs: Any = None
            try:
                for _ in range(self._model.steps_per_execution):
                    data = next(iterator, None)
                    if data is None:
                        break
                    logs = step(data)
            except BaseException:
                self._write(names)
                raise
            if logs is None:
                raise StopIteration
            return logs, tuple(self.values[name] for name in names)

        return function

    def batch(self, data: Any) -> Any:
        """Copy arrays to the host; JAX arrays stay unchanged."""
        return nests.mapped(
            lambda leaf: leaf if hasattr(leaf, "addressable_shards") else nests.on_host(leaf), data
        )

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Within the context, the variables have these values, and assignments update them."""
        names = tuple(self.values)
        with self._scope(self._pairs(names, self.values)) as scope:
            yield
        self.values = self._values_in(scope, self.values)

    def pure(self, function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
        """Make a function pure: it takes ``(values, *args)`` and also returns the new values."""

        def of_values(values: Values, *args: Any) -> tuple[Any, Values]:
            pairs = self._pairs(names, values)
            with self._scope(pairs, collect_losses=True) as scope:
                result = function(*args)
            return result, self._values_in(scope, values)

        return of_values

    def compiled(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Compile the function as Keras would: with XLA, unless the model disables it."""
        import jax

        is_compiled = self._model.jit_compile and not self._model.run_eagerly
        return jax.jit(function, **options) if is_compiled else function

    def own_train(self, data: Any) -> Any:
        """Run the model's own ``train_step`` on the whole batch."""
        return self._keras_step("train", data)

    def test(self, data: Any) -> Any:
        """Run Keras's ``test_step``, or the model's own."""
        return self._keras_step("test", data)

    def _keras_step(self, kind: str, data: Any) -> Any:
        """Keras's step without donation, so that the state survives a failure."""
        step = getattr(self._model, f"{kind}_step")
        run = cached_step(self._model, kind, lambda: self.compiled(step))
        names = OF_LOOPS[kind]
        state = tuple(self.values[name] for name in names)
        logs, state = finished(run(state, on_device(data)))
        self.values |= dict(zip(names, map(list, state), strict=True))
        return logs

    def test_part(self, data: Any, share: float) -> tuple[Any, Any]:
        """Like `test`, for a part; also return the weight of its loss."""
        with saying_why():
            found, values = finished(self._test_part(self._of("test"), on_device(data), share))
        self.values |= values
        return found  # type: ignore[no-any-return]

    @cached_property
    def _test_part(self) -> Any:
        step = partial(evaluated_part, self._model)
        make = partial(self.compiled, self.pure(step, OF_LOOPS["test"]))
        return cached_step(self._model, "test in parts", make)

    def predict(self, data: Any) -> Any:
        """Run Keras's ``predict_step``, or the model's own."""
        state = (self.values["trainable"], self.values["non_trainable"])
        outputs, others = finished(self._predict(state, on_device(data)))
        self.values |= {"non_trainable": list(others)}
        return outputs

    @cached_property
    def _predict(self) -> Any:
        return cached_step(self._model, "predict", lambda: self.compiled(self._model.predict_step))

    def update(self, gradients: Gradients) -> None:
        """Run the optimizer's step; old and new values coexist unless they do not fit."""
        before = (self.values["trainable"], self.values["optimizer"])
        done, failure = attempt(lambda: finished(self._update(*before, gradients.values)))
        if failure is not None and failure.is_of_the_card:
            say(
                f"fit: {failure.summary}; the weight update is retried with the old values "
                "in the host's RAM, not on the GPU"
            )
            clear_traceback(failure.error)
            done, failure = self._updated_in_place(before, gradients.values)
        if failure is not None:
            where = "on the GPU" if failure.is_of_the_card else "in the host's RAM"
            explain_on_stderr(failure.error, f"fit: no room {where} for the weight update")
            raise failure.error
        self.values |= dict(zip(("trainable", "optimizer"), map(list, done), strict=True))

    def _updated_in_place(self, before: tuple[Any, Any], values: list[Any]) -> tuple[Any, Any]:
        """Donate the old values to XLA; on failure, restore them from a copy on the host."""
        import jax

        held = jax.device_get(before)
        step = self.compiled(self._apply, donate_argnums=(0, 1))
        done, failure = attempt(lambda: finished(step(*before, values)))
        if failure is not None:
            clear_traceback(failure.error)
            self.values |= dict(zip(("trainable", "optimizer"), jax.device_put(held), strict=True))
        return done, failure

    @cached_property
    def _update(self) -> Any:
        return cached_step(self._model, "update", lambda: self.compiled(self._apply))

    def _apply(self, trainable: list[Any], optimizer: list[Any], values: list[Any]) -> Any:
        if not trainable:
            return trainable, optimizer
        return self._model.optimizer.stateless_apply(optimizer, values, trainable)

    def end(self) -> None:
        """Free the gradient sums; write the values that ``predict`` changed into the variables."""
        self.gradients.free()
        self._write(self._written_at_end)
        self.values = {}

    def _of(self, kind: str) -> Values:
        return {name: self.values[name] for name in OF_LOOPS[kind]}

    def _variables(self, name: str) -> list[Any]:
        model = self._model
        if name == "optimizer":
            return [] if model.optimizer is None else list(model.optimizer.variables)
        return list(getattr(model, f"{name}_variables"))

    def _values_of(self, kind: str) -> Values:
        return {name: [each.value for each in self._variables(name)] for name in OF_LOOPS[kind]}

    def _pairs(self, names: Sequence[str], values: Values) -> list[tuple[Any, Any]]:
        return [
            pair for name in names for pair in zip(self._variables(name), values[name], strict=True)
        ]

    def _values_in(self, scope: Any, values: Values) -> Values:
        return {
            name: [scope.get_current_value(each) for each in self._variables(name)]
            for name in values
        }

    def _write(self, names: Sequence[str]) -> None:
        """Write the values back into the variables, which Keras's loops have emptied."""
        for name in names:
            for variable, value in zip(self._variables(name), self.values[name], strict=True):
                variable.assign(value)


class _ModelState:
    """The values before a part; restoring them undoes it."""

    def __init__(self, engine: JaxEngine) -> None:
        self._engine = engine
        self._held: Values = {}

    def hold(self) -> None:
        """Save the current values."""
        self._held = dict(self._engine.values)

    def put_back(self) -> None:
        """Restore the saved values."""
        self._engine.values = dict(self._held)
