"""Steps of Keras 3 on JAX: pure functions of the model's values, which are undone by keeping them.

Keras's own steps donate the values, so that a step that fails takes the weights with it.  These
do not: a step that fails leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from typing import Any

from gpuconf.batching.failures import attempt, explain_beside, let_go
from gpuconf.batching.steps.forward import Gradients, evaluated_part
from gpuconf.batching.steps.jax_gradients import (
    OF_LOOPS,
    JaxGradients,
    Values,
    finished,
    on_device,
)
from gpuconf.batching.steps.kept import kept
from gpuconf.batching.steps.part_losses import saying_why
from gpuconf.keras_api import nests
from gpuconf.keras_api.families import family_on_any_backend
from gpuconf.keras_api.layers import layers_of
from gpuconf.keras_api.stepping import Step, calling
from gpuconf.terminal import say


class JaxEngine:
    """See `engines.Engine`; ``values`` are the model's at this moment, by what they are of."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._scope = family_on_any_backend(model).keras.StatelessScope
        self.values: Values = {}
        self._written_at_end: tuple[str, ...] = ()
        self.state = _Kept(self)
        self.gradients = JaxGradients(self, model)

    def begin(self, kind: str, data: Any) -> None:
        """Nothing in Keras's loops, which give the values; ``predict`` has a loop of ours."""
        if kind != "predict":
            return
        if not all(layer.built for layer in layers_of(self._model, include_self=True)):
            with self._scope():  # as Keras does it
                self._model(data[0] if isinstance(data, tuple) else data)
        self.values = self._values_of(kind)
        self._written_at_end = ("non_trainable",)

    def calling(self, **steps: Step | None) -> AbstractContextManager[None]:
        """Keras's loops hand over the state and an iterator, and want the new state."""
        given = {kind: self._in_loop(kind, step) for kind, step in steps.items() if step}
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
        """Arrays on the host, and JAX's as they are."""
        return nests.mapped(
            lambda leaf: leaf if hasattr(leaf, "addressable_shards") else nests.on_host(leaf), data
        )

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Inside, the variables have these values, and what is assigned goes into them."""
        names = tuple(self.values)
        with self._scope(self._pairs(names, self.values)) as scope:
            yield
        self.values = self._values_in(scope, self.values)

    def pure(self, function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
        """A function of the model as one of its values: ``(values, *args)`` to both, new."""

        def of_values(values: Values, *args: Any) -> tuple[Any, Values]:
            pairs = self._pairs(names, values)
            with self._scope(pairs, collect_losses=True) as scope:
                result = function(*args)
            return result, self._values_in(scope, values)

        return of_values

    def compiled(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """The function as Keras would run it: by XLA, unless the model says otherwise."""
        import jax

        is_compiled = self._model.jit_compile and not self._model.run_eagerly
        return jax.jit(function, **options) if is_compiled else function

    def own_train(self, data: Any) -> Any:
        """The model's own ``train_step``, the whole batch at once."""
        return self._keras_step("train", data)

    def test(self, data: Any) -> Any:
        """Keras's ``test_step``, or the model's own."""
        return self._keras_step("test", data)

    def _keras_step(self, kind: str, data: Any) -> Any:
        """Keras's without donating the state, which so outlives a failure."""
        step = getattr(self._model, f"{kind}_step")
        run = kept(self._model, kind, lambda: self.compiled(step))
        names = OF_LOOPS[kind]
        state = tuple(self.values[name] for name in names)
        logs, state = finished(run(state, on_device(data)))
        self.values |= dict(zip(names, map(list, state), strict=True))
        return logs

    def test_part(self, data: Any, share: float) -> tuple[Any, Any]:
        """The same with the part's weight."""
        with saying_why():
            found, values = finished(self._test_part(self._of("test"), on_device(data), share))
        self.values |= values
        return found  # type: ignore[no-any-return]

    @cached_property
    def _test_part(self) -> Any:
        step = partial(evaluated_part, self._model)
        make = partial(self.compiled, self.pure(step, OF_LOOPS["test"]))
        return kept(self._model, "test in parts", make)

    def predict(self, data: Any) -> Any:
        """Keras's ``predict_step``, or the model's own."""
        state = (self.values["trainable"], self.values["non_trainable"])
        outputs, others = finished(self._predict(state, on_device(data)))
        self.values |= {"non_trainable": list(others)}
        return outputs

    @cached_property
    def _predict(self) -> Any:
        return kept(self._model, "predict", lambda: self.compiled(self._model.predict_step))

    def update(self, gradients: Gradients) -> None:
        """The optimizer's step; old and new values exist at once, unless there is no room."""
        before = (self.values["trainable"], self.values["optimizer"])
        done, failure = attempt(lambda: finished(self._update(*before, gradients.values)))
        if failure is not None and failure.is_of_the_card:
            say(
                f"fit: {failure.summary}; in the update of the weights, which is tried again with "
                "the old ones in the host's RAM, not on the card"
            )
            let_go(failure.error)
            done, failure = self._updated_in_place(before, gradients.values)
        if failure is not None:
            where = "on the card" if failure.is_of_the_card else "in the host's RAM"
            explain_beside(failure.error, f"fit: no room {where} for the update of the weights")
            raise failure.error
        self.values |= dict(zip(("trainable", "optimizer"), map(list, done), strict=True))

    def _updated_in_place(self, before: tuple[Any, Any], values: list[Any]) -> tuple[Any, Any]:
        """The old values are given to XLA for the new ones, and come back from the host."""
        import jax

        held = jax.device_get(before)
        step = self.compiled(self._apply, donate_argnums=(0, 1))
        done, failure = attempt(lambda: finished(step(*before, values)))
        if failure is not None:
            let_go(failure.error)
            self.values |= dict(zip(("trainable", "optimizer"), jax.device_put(held), strict=True))
        return done, failure

    @cached_property
    def _update(self) -> Any:
        return kept(self._model, "update", lambda: self.compiled(self._apply))

    def _apply(self, trainable: list[Any], optimizer: list[Any], values: list[Any]) -> Any:
        if not trainable:
            return trainable, optimizer
        return self._model.optimizer.stateless_apply(optimizer, values, trainable)

    def end(self) -> None:
        """Sums of gradients are given back; what ``predict`` changed goes into the variables."""
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
        """Give the variables their values, of which Keras's loops have emptied them."""
        for name in names:
            for variable, value in zip(self._variables(name), self.values[name], strict=True):
                variable.assign(value)


class _Kept:
    """The values before a part: undoing is to take them again."""

    def __init__(self, engine: JaxEngine) -> None:
        self._engine = engine
        self._held: Values = {}

    def hold(self) -> None:
        """Note the values as they are now."""
        self._held = dict(self._engine.values)

    def put_back(self) -> None:
        """Undo what has changed since."""
        self._engine.values = dict(self._held)
