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
from gpuconf.batching.steps.forward import Gradients, computed, evaluated_part, logged
from gpuconf.batching.steps.kept import kept
from gpuconf.batching.steps.part_losses import saying_why
from gpuconf.keras_api import nests
from gpuconf.keras_api.families import family_on_any_backend
from gpuconf.keras_api.layers import layers_of
from gpuconf.keras_api.stepping import Step, calling
from gpuconf.terminal import say

Values = dict[str, list[Any]]

# What Keras's loops hand over and want back, in their order.
_OF_LOOPS = {
    "train": ("trainable", "non_trainable", "optimizer", "metrics"),
    "test": ("trainable", "non_trainable", "metrics"),
    "predict": ("trainable", "non_trainable"),
}


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
        names = _OF_LOOPS[kind]

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
        names = _OF_LOOPS[kind]
        state = tuple(self.values[name] for name in names)
        logs, state = _finished(run(state, _on_device(data)))
        self.values |= dict(zip(names, map(list, state), strict=True))
        return logs

    def test_part(self, data: Any, share: float) -> tuple[Any, Any]:
        """The same with the part's weight."""
        with saying_why():
            found, values = _finished(self._test_part(self._of("test"), _on_device(data), share))
        self.values |= values
        return found  # type: ignore[no-any-return]

    @cached_property
    def _test_part(self) -> Any:
        step = partial(evaluated_part, self._model)
        make = partial(self.compiled, self.pure(step, _OF_LOOPS["test"]))
        return kept(self._model, "test in parts", make)

    def predict(self, data: Any) -> Any:
        """Keras's ``predict_step``, or the model's own."""
        state = (self.values["trainable"], self.values["non_trainable"])
        outputs, others = _finished(self._predict(state, _on_device(data)))
        self.values |= {"non_trainable": list(others)}
        return outputs

    @cached_property
    def _predict(self) -> Any:
        return kept(self._model, "predict", lambda: self.compiled(self._model.predict_step))

    def update(self, gradients: Gradients) -> None:
        """The optimizer's step; old and new values exist at once, unless there is no room."""
        before = (self.values["trainable"], self.values["optimizer"])
        done, failure = attempt(lambda: _finished(self._update(*before, gradients.values)))
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
        done, failure = attempt(lambda: _finished(step(*before, values)))
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
        return {name: self.values[name] for name in _OF_LOOPS[kind]}

    def _variables(self, name: str) -> list[Any]:
        model = self._model
        if name == "optimizer":
            return [] if model.optimizer is None else list(model.optimizer.variables)
        return list(getattr(model, f"{name}_variables"))

    def _values_of(self, kind: str) -> Values:
        return {name: [each.value for each in self._variables(name)] for name in _OF_LOOPS[kind]}

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


class JaxGradients:
    """Gradients of a model's loss, and sums of them; see `engines.GradientSums`."""

    def __init__(self, engine: JaxEngine, model: Any) -> None:
        self._engine = engine
        self._model = model
        self._sums: list[Any] | None = None
        self._weight: Any = 0.0

    def of_whole(self, data: Any) -> Gradients:
        """The gradients of a batch that is taken at once."""
        values, logs, _ = self._computed(data, None)
        return Gradients(values, logs=logs)

    def begin(self) -> None:
        """Sums begin at zero, which is nothing until the first part."""
        self.free()

    def add(self, data: Any, share: float) -> tuple[Any, Any]:
        """Add a part's gradients; gives the logs, and how much the part's loss counts."""
        with saying_why():
            values, logs, weight = self._computed(data, share)
        sums = self._sums
        self._sums = None  # given away, whatever happens
        self._sums = _finished(self._add(sums, values, weight))
        self._weight = self._weight + weight
        return logs, weight

    def summed(self, logs: Any, *, is_sum: bool) -> Gradients:
        """The gradients of all the parts since `begin`."""
        wanted = [value.dtype for value in self._engine.values["trainable"]]
        total = 1.0 if is_sum else float(self._weight)
        values = [
            (each / total if total else each * 0.0).astype(dtype)
            for each, dtype in zip(self._sums or (), wanted, strict=True)
        ]
        self.free()
        return Gradients(values, logs=logs)

    def free(self) -> None:
        """Give the sums' memory back."""
        self._sums, self._weight = None, 0.0

    def _computed(self, data: Any, share: float | None) -> tuple[list[Any], Any, Any]:
        engine = self._engine
        function = self._of_whole if share is None else self._of_part
        found = function(engine.values["trainable"], engine.values, _on_device(data), share or 0.0)
        values, (logs, weight, changed) = _finished(found)
        engine.values |= {**changed, "trainable": engine.values["trainable"]}
        return values, logs, weight

    @cached_property
    def _of_whole(self) -> Any:
        return kept(self._model, "gradients", partial(self._made, is_whole=True))

    @cached_property
    def _of_part(self) -> Any:
        return kept(self._model, "gradients in parts", partial(self._made, is_whole=False))

    @cached_property
    def _add(self) -> Any:
        return kept(self._model, "sums", lambda: self._engine.compiled(_added, donate_argnums=0))

    def _made(self, *, is_whole: bool) -> Any:
        """A function of the weights, all values, a batch and its share."""
        import jax

        model = self._model

        def scaled_loss(data: Any, share: Any) -> tuple[Any, Any]:
            found = computed(model, data, None if is_whole else share, training=True)
            loss = found.loss
            if model.optimizer is not None:
                loss = model.optimizer.scale_loss(loss)
            # Metrics are computed beside the gradients, and not derived.
            aside = found._replace(
                loss=jax.lax.stop_gradient(found.loss),
                y_pred=nests.mapped(_without_gradient, found.y_pred),
            )
            return loss, (logged(model, aside), found.weight)

        pure = self._engine.pure(scaled_loss, _OF_LOOPS["train"])

        def of_weights(trainable: Any, values: Values, data: Any, share: Any) -> Any:
            (loss, (logs, weight)), changed = pure({**values, "trainable": trainable}, data, share)
            return loss, (logs, weight, {**changed, "trainable": []})

        return self._engine.compiled(jax.grad(of_weights, has_aux=True))


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


def _without_gradient(output: Any) -> Any:
    import jax

    return jax.lax.stop_gradient(output)


def _added(sums: list[Any] | None, values: list[Any], weight: Any) -> list[Any]:
    """In float32 at least: a sum over hundreds of samples is beyond float16."""
    import jax.numpy as jnp

    wide = [each.astype(jnp.promote_types(each.dtype, jnp.float32)) * weight for each in values]
    return wide if sums is None else [one + other for one, other in zip(sums, wide, strict=True)]


def _on_device(data: Any) -> Any:
    import jax

    return nests.mapped(jax.device_put, data)


def _finished(found: Any) -> Any:
    """What JAX has promised, computed: only then it says what failed."""
    import jax

    return jax.block_until_ready(found)
