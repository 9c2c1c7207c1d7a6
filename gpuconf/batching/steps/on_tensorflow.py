"""Keras 2 and 3 steps on TensorFlow: compiled functions that are kept on the model."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Any

from gpuconf.basics.terminal import say
from gpuconf.batching.steps.forward import Gradients, evaluated_part
from gpuconf.batching.steps.gradients import GradientParts
from gpuconf.batching.steps.part_losses import saying_why
from gpuconf.batching.steps.state import Reader, UndoableState, learnt_state, small_state
from gpuconf.batching.steps.step_cache import cached_step, make_optimizer_variables, make_variables
from gpuconf.batching.steps.update import GuardedUpdate, update_function
from gpuconf.support.keras_api.families import family_of
from gpuconf.support.keras_api.jit import is_compiled
from gpuconf.support.keras_api.stepping import Step, compiled, stepping, without_optionals

_WITHOUT_XLA = (
    "fit, evaluate and predict run this model without XLA, in spite of its jit_compile=True: "
    "TensorFlow does not survive an out-of-memory error in a compiled step"
)


class TensorFlowEngine:
    """See `engines.Engine`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        if is_compiled(model) and not family_of(model).is_keras_3:  # whose default it may be
            cached_step(model, "said", partial(say, _WITHOUT_XLA))
        self.state = UndoableState(model, lambda: Reader(model, small_state(model)))
        self._test = cached_step(model, "test", partial(compiled, model, model.test_step))
        make_of_part = partial(compiled, model, partial(evaluated_part, model))
        self._test_part = cached_step(model, "test in parts", make_of_part)

    def begin(self, kind: str, data: Any) -> None:
        """Trace the step, which makes Keras create its variables; computes nothing."""
        if kind == "train":
            self.gradients.make_variables(data)
            make_optimizer_variables(self._model)
        else:
            step = self._test if kind == "test" else self._predict
            make_variables(self._model, step, data)

    def calling(self, **steps: Step) -> AbstractContextManager[None]:
        """Within the context, Keras's loops use these steps."""
        return stepping(self._model, **steps)

    def batch(self, data: Any) -> Any:
        """Return the batch unchanged, with None for missing parts."""
        return without_optionals(data)

    def scope(self) -> AbstractContextManager[Any]:
        """A null context: steps change the variables directly."""
        return nullcontext()

    @cached_property
    def own_train(self) -> Step:
        """A graph of the model's own ``train_step``."""
        make = partial(compiled, self._model, self._model.train_step)
        return cached_step(self._model, "own train", make)

    def test(self, data: Any) -> Any:
        """Run a graph of ``test_step``."""
        return self._test(data)

    def test_part(self, data: Any, share: float) -> tuple[Any, Any]:
        """Run the same graph for a part; also returns the weight of its loss."""
        import tensorflow as tf

        with saying_why():
            found: tuple[Any, Any] = self._test_part(data, tf.constant(share))
        return found

    def predict(self, data: Any) -> Any:
        """Run a graph of ``predict_step``."""
        return self._predict(data)

    @cached_property
    def gradients(self) -> GradientParts:
        """The gradients of the model's loss; traced functions stay on the model."""
        return cached_step(self._model, "gradients", partial(GradientParts, self._model))

    @cached_property
    def _predict(self) -> Any:
        return cached_step(
            self._model, "predict", partial(compiled, self._model, self._model.predict_step)
        )

    @cached_property
    def _update(self) -> GuardedUpdate:
        make_optimizer_variables(self._model)
        reader = Reader(self._model, learnt_state(self._model))
        return GuardedUpdate(reader, update_function(self._model))

    def update(self, gradients: Gradients) -> None:
        """Run a graph of ``apply_gradients``, guarded."""
        self._update(gradients)

    def end(self) -> None:
        """Free the gradient sums."""
        if "gradients" in vars(self):
            self.gradients.free()
