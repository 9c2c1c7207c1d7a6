"""One step of ``evaluate``: a batch, whole or in parts, told to the metrics."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuconf.batching import part_weights
from gpuconf.batching.card_batch import CardBatch, checked_retries
from gpuconf.batching.card_size import size_for
from gpuconf.batching.keras_step import evaluated_part
from gpuconf.batching.loss_trackers import LossTrackers
from gpuconf.batching.model_building import make_variables
from gpuconf.batching.model_state import UndoableState
from gpuconf.batching.parts import even, in_parts
from gpuconf.batching.step_functions import kept
from gpuconf.keras_api import nests
from gpuconf.keras_api.families import has_own_step
from gpuconf.keras_api.stepping import compiled
from gpuconf.terminal import say


class EvaluationStep:
    """A batch through ``test_step``, in parts that the card has room for."""

    def __init__(self, model: Any, *, is_auto: bool, max_retries: int) -> None:
        self._model = model
        self._is_auto = is_auto
        self._max_retries = checked_retries(max_retries)
        self._of_whole = kept(model, "test", partial(compiled, model, model.test_step))
        make_of_part = partial(compiled, model, partial(evaluated_part, model))
        self._of_part = kept(model, "test in parts", make_of_part)
        self._is_keras_s = not has_own_step(model, "test_step")
        self._state = UndoableState(model)
        self._trackers = LossTrackers(model)
        self._card_batch: CardBatch | None = None

    def __call__(self, data: Any) -> Any:
        """The metrics after this batch, as Keras's ``test_function`` gives them."""
        if self._card_batch is None:
            self._card_batch = self._begin(data)
        samples = nests.count(data)
        are_told_apart = False
        logs: Any = None
        run = partial(self._run, data, samples)
        parts = in_parts(samples, self._card_batch, run, state=self._state, cut=even)
        for (logs, weight), _ in parts:  # noqa: B007
            if weight is not None:
                self._trackers.add(weight)
                are_told_apart = True
        return self._trackers.end(samples, logs) if are_told_apart else logs

    def _begin(self, data: Any) -> CardBatch:
        make_variables(self._model, self._of_whole, data)
        return size_for(
            "evaluate", self._model, data, is_auto=self._is_auto, max_retries=self._max_retries
        )

    def _run(self, data: Any, samples: int, start: int, end: int) -> tuple[Any, Any]:
        """The logs, and how much the loss counts; None where the trackers are right already."""
        import tensorflow as tf

        part, size = nests.part(data, start, end), end - start
        is_whole = size == samples
        if not self._is_keras_s or (is_whole and not self._trackers.are_wrong_of_whole):
            return self._of_whole(part), None
        if start == 0:
            self._trackers.begin()
        if is_whole:
            return self._of_whole(part), 1.0
        try:
            why = part_weights.why_indivisible(self._model)
            if why is not None:
                raise part_weights.IndivisibleError(why)
            with part_weights.saying_why():
                found: tuple[Any, Any] = self._of_part(part, tf.constant(size / samples))
        except part_weights.IndivisibleError as error:
            self._is_keras_s = False
            say(f"evaluate: {error.message}; its loss is the mean of the parts' losses")
            return self._of_whole(part), None
        return found
