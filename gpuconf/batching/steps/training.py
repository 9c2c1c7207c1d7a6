"""One step of ``fit``: the gradients of a batch, at once or in parts, then one update."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from gpuconf.basics.terminal import say
from gpuconf.batching.failures import OutOfMemory, attempt, explain_on_stderr
from gpuconf.batching.first_size import size_for
from gpuconf.batching.parts import even
from gpuconf.batching.size import CardBatch, checked_retries
from gpuconf.batching.steps import part_losses
from gpuconf.batching.steps.engines import Engine
from gpuconf.batching.steps.forward import Gradients
from gpuconf.batching.steps.part_losses import LossTrackers
from gpuconf.batching.steps.statistics import MovingStatistics
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import has_own_step


class TrainStep:
    """Keras's ``train_step`` for a batch that may have to be split into parts.

    Before the update, only metrics, statistics and seeds are written, and they are restored on
    failure. So a failure before the update leaves the weights and the optimizer unchanged.
    """

    def __init__(
        self, model: Any, engine: Engine, *, card_batch_size: int | None, max_retries: int
    ) -> None:
        self._model = model
        self._most = card_batch_size
        self._max_retries = checked_retries(max_retries)
        self._engine = engine
        self._state = engine.state
        self._statistics = MovingStatistics(model)
        self._trackers = LossTrackers(model)
        self._card_batch: CardBatch | None = None
        self._has_said = False
        self._failure: OutOfMemory | None = None  # in this step, which continues in parts

    def __call__(self, data: Any) -> Any:
        """The logs of the step, as Keras's ``train_function`` returns them."""
        if self._card_batch is None:
            self._card_batch = self._begin(data)
        samples = nests.count(data)
        while True:
            size = even(samples, self._card_batch.size)
            self._state.hold()
            with self._undoing():
                found, failure = attempt(partial(self._gradients_of, data, samples, size))
            if failure is None:
                break
            self._state.put_back()
            self._failure = failure
            self._check_divisible()
            self._card_batch.failed(failure, size)
        self._card_batch.succeeded(size)
        with self._undoing():
            self._engine.update(found)
        self._failure = None
        return found.logs

    def _begin(self, data: Any) -> CardBatch:
        self._engine.begin("train", data)
        found = size_for(
            "fit",
            self._model,
            data,
            is_auto=False,
            max_retries=self._max_retries,
        )
        why = part_losses.why_indivisible(self._model)
        if why is not None and self._most is not None:
            raise part_losses.IndivisibleError.because(why)
        if why is not None:
            found.size = sys.maxsize  # even if a similar model's batch was split
        if self._most is not None:
            found.size = min(found.size, self._most)
        return found

    def _gradients_of(self, data: Any, samples: int, size: int) -> Gradients:
        is_whole = size >= samples
        if is_whole and not self._trackers.are_wrong_of_whole:
            return self._engine.gradients.of_whole(data)
        with self._engine.scope():
            self._trackers.begin()
        if is_whole:
            found = self._engine.gradients.of_whole(data)
            with self._engine.scope():
                self._trackers.add(1.0)
        else:
            found = self._of_parts(data, samples, size)
        with self._engine.scope():
            return found._replace(logs=self._trackers.end(samples, found.logs))

    def _of_parts(self, data: Any, samples: int, size: int) -> Gradients:
        logs: Any = None
        self._say_once()
        self._engine.gradients.begin()
        with self._engine.scope():
            self._statistics.begin()
        for start in range(0, samples, size):
            end = min(samples, start + size)
            share = (end - start) / samples
            logs, weight = self._engine.gradients.add(nests.part(data, start, end), share)
            with self._engine.scope():
                self._trackers.add(weight)
                self._statistics.add(share)
        with self._engine.scope():
            self._statistics.end()
        return self._engine.gradients.summed(logs, is_sum=part_losses.is_sum(self._model))

    def _say_once(self) -> None:
        """Print once what is assumed about the user's own losses, which cannot be inspected."""
        if not self._has_said and has_own_step(self._model, "compute_loss"):
            say(
                "fit: the model's own compute_loss is assumed to be a mean over the samples; "
                "any other loss would be wrong in parts"
            )
        elif not self._has_said and (name := part_losses.own_loss(self._model)) is not None:
            say(
                f"fit: {name} is assumed to compute each sample's loss independently; a loss that "
                "compares samples (contrastive) would be wrong in parts"
            )
        self._has_said = True

    @contextmanager
    def _undoing(self) -> Iterator[None]:
        """On an exception, restore the model's state from before the step.

        If the parts turn out not to add up to the batch, raise the out-of-memory error that caused
        the split.
        """
        try:
            yield
        except part_losses.IndivisibleError as error:
            self._state.put_back()
            if self._failure is None:
                raise
            explain_on_stderr(self._failure.error, f"fit: {error.message}")
            raise self._failure.error from None
        except BaseException:
            self._state.put_back()
            raise

    def _check_divisible(self) -> None:
        failure = self._failure
        assert failure is not None
        why = part_losses.why_indivisible(self._model) if failure.is_of_the_card else None
        if why is not None:
            explain_on_stderr(failure.error, f"fit: the batch cannot be processed in parts: {why}")
            raise failure.error
