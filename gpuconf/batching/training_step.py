"""One step of ``fit``: the gradients of a batch, whole or in parts, then one update."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuconf.batching import nests, part_weights
from gpuconf.batching.card_batch import CardBatch, attempt
from gpuconf.batching.card_size import size_for
from gpuconf.batching.failures import Failure, tell_beside
from gpuconf.batching.gradient_parts import GradientParts, Gradients
from gpuconf.batching.guarded_update import GuardedUpdate
from gpuconf.batching.model_state import UndoableState
from gpuconf.batching.moving_statistics import MovingStatistics
from gpuconf.batching.step_functions import kept
from gpuconf.batching.stepping import even


class TrainStep:
    """Keras's ``train_step`` for a batch that may have to be taken in parts.

    Until the update nothing is written but metrics, statistics and seeds, which are put back; so
    whatever fails before it leaves the weights and the optimizer as they were.
    """

    def __init__(self, model: Any, *, card_batch_size: int | None, max_retries: int) -> None:
        self._model = model
        self._most = card_batch_size
        self._max_retries = max_retries
        self._state = UndoableState(model)
        self._statistics = MovingStatistics(model)
        self._gradients = kept(model, "gradients", partial(GradientParts, model))
        self._update = GuardedUpdate(model)
        self._card_batch: CardBatch | None = None

    def __call__(self, data: Any) -> Any:
        """The logs of the step, as Keras's ``train_function`` gives them."""
        if self._card_batch is None:
            self._card_batch = self._begin(data)
        samples = nests.count(data)
        while True:
            size = even(samples, self._card_batch.size)
            self._state.hold()
            found, failure = attempt(partial(self._gradients_of, data, samples, size))
            if failure is None:
                break
            self._state.put_back()
            self._check_divisible(failure)
            self._card_batch.failed(failure, size)
        self._card_batch.succeeded(size)
        self._update(found)
        return self._logs(found)

    def end(self) -> None:
        """Give back the memory that only the training needed."""
        self._gradients.free()

    def _begin(self, data: Any) -> CardBatch:
        found = size_for(
            "fit",
            self._model,
            data,
            is_auto=False,
            max_retries=self._max_retries,
            training=True,
        )
        if self._most is not None:
            found.size = min(found.size, self._most)
        build_optimizer(self._model)
        return found

    def _gradients_of(self, data: Any, samples: int, size: int) -> Gradients:
        if size >= samples:
            return self._gradients.of_whole(data)
        logs: Any = None
        self._gradients.begin()
        self._statistics.begin()
        for start in range(0, samples, size):
            end = min(samples, start + size)
            share = (end - start) / samples
            logs = self._gradients.add(nests.part(data, start, end), share)
            self._statistics.add(share)
        self._statistics.end()
        return self._gradients.summed(samples, logs)

    def _check_divisible(self, failure: Failure) -> None:
        why = part_weights.why_indivisible(self._model) if failure.is_of_the_card else None
        if why is not None:
            tell_beside(failure.error, f"fit: the batch cannot be taken in parts: {why}")
            raise failure.error

    def _logs(self, found: Gradients) -> Any:
        """A loss that was put together by the update is told now."""
        self._model_counts()
        tracker = getattr(self._model, "_loss_tracker", None)
        if found.samples is None or tracker is None or not isinstance(found.logs, dict):
            return found.logs
        return {**found.logs, **({"loss": tracker.result()} if "loss" in found.logs else {})}

    def _model_counts(self) -> None:
        """Keras 2 counts its steps, for TensorBoard."""
        counter = getattr(self._model, "_train_counter", None)
        if counter is not None:
            counter.assign_add(1)


def build_optimizer(model: Any) -> None:
    """Make the optimizer's variables, so that they can be held before the first update."""
    optimizer, variables = model.optimizer, model.trainable_variables
    if getattr(optimizer, "built", False) or not variables:
        return
    if hasattr(optimizer, "build"):
        optimizer.build(variables)
    elif hasattr(optimizer, "_create_all_weights"):  # Keras 2's legacy ones
        optimizer._create_all_weights(variables)
