"""``evaluate``: Keras's own, with data that stays on the host and batches that fit the GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

from gpuconf.basics.terminal import say
from gpuconf.batching.data.host_data import host_data
from gpuconf.batching.failures import explained
from gpuconf.batching.first_size import size_for
from gpuconf.batching.parts import even, in_parts
from gpuconf.batching.size import MOST_RETRIES, CardBatch, checked_retries
from gpuconf.batching.steps import part_losses
from gpuconf.batching.steps.engines import Engine, engine_of
from gpuconf.batching.steps.part_losses import LossTrackers
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import family_on_any_backend, has_own_step
from gpuconf.support.keras_api.stepping import check_strategy


def evaluate(  # noqa: PLR0917  # Keras's signature
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | str | None = "auto",
    verbose: Any = "auto",
    sample_weight: Any = None,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,
    *,
    max_retries: int = MOST_RETRIES,
    **kwargs: Any,
) -> Any:
    """Keras's ``model.evaluate``, in batches that fit the GPU.

    The arguments and the result are the same as in Keras. Arrays, memmaps, HDF5 datasets and frames
    stay in host memory or on disk and are passed batch by batch. Datasets, generators and
    PyDatasets keep their own batches. ``batch_size`` is the number of samples passed at once, and
    the most that the GPU receives; ``"auto"`` starts with 32 and doubles as long as batches fit.

    If part of a batch does not fit in the GPU's memory, its changes are undone, including those to
    metrics and to the seeds of random layers, and the part is halved. The metrics are therefore the
    same as in one pass over the data, whatever the batches were. TensorFlow's steps run without
    XLA, even with ``jit_compile=True``: TensorFlow does not survive an out-of-memory error in a
    compiled step. The size is remembered for this model and GPU (`forget`). After ``max_retries``
    further failures, or if one sample does not fit, the original error is raised, with its
    diagnosis printed to stderr.

    Raises UsageError if ``model`` is not a Keras model or the data cannot be cut, BackendError for
    a backend other than TensorFlow, PyTorch and JAX, and Keras's own errors.
    """
    family = family_on_any_backend(model)
    check_strategy(model, "evaluate")
    engine = engine_of(model)
    given = host_data(
        *(x, y, sample_weight),
        batch_size=batch_size,
        floatx=family.keras.backend.floatx(),
        backend=family.backend,
        steps=steps,
    )
    step = EvaluationStep(model, engine, is_auto=given.is_auto, max_retries=max_retries)
    with engine.calling(test=given.reading(step)), given.building(model):
        call = partial(
            model.evaluate,
            **given.arguments,
            verbose=verbose,
            steps=steps,
            callbacks=callbacks,
            return_dict=return_dict,
            **kwargs,
        )
        try:
            return explained("evaluate", call)
        finally:
            engine.end()


class EvaluationStep:
    """Run a batch through ``test_step``, in parts that fit the GPU."""

    def __init__(self, model: Any, engine: Engine, *, is_auto: bool, max_retries: int) -> None:
        self._model = model
        self._engine = engine
        self._is_auto = is_auto
        self._max_retries = checked_retries(max_retries)
        self._is_keras_s = not has_own_step(model, "test_step")
        self._trackers = LossTrackers(model)
        self._card_batch: CardBatch | None = None

    def __call__(self, data: Any) -> Any:
        """Return the metrics after this batch, as Keras's ``test_function`` does."""
        if self._card_batch is None:
            self._card_batch = self._begin(data)
        samples = nests.count(data)
        are_told_apart = False
        logs: Any = None
        run = partial(self._run, data, samples)
        parts = in_parts(samples, self._card_batch, run, state=self._engine.state, cut=even)
        for (logs, weight), _ in parts:  # noqa: B007
            if weight is not None:
                with self._engine.scope():
                    self._trackers.add(weight)
                are_told_apart = True
        if not are_told_apart:
            return logs
        with self._engine.scope():
            return self._trackers.end(samples, logs)

    def _begin(self, data: Any) -> CardBatch:
        self._engine.begin("test", data)
        return size_for(
            "evaluate", self._model, data, is_auto=self._is_auto, max_retries=self._max_retries
        )

    def _run(self, data: Any, samples: int, start: int, end: int) -> tuple[Any, Any]:
        """Return the logs and the loss's weight, or None if the trackers are already correct."""
        part, size = nests.part(data, start, end), end - start
        is_whole = size == samples
        if not self._is_keras_s or (is_whole and not self._trackers.are_wrong_of_whole):
            return self._engine.test(part), None
        if start == 0:
            with self._engine.scope():
                self._trackers.begin()
        if is_whole:
            return self._engine.test(part), 1.0
        try:
            why = part_losses.why_indivisible(self._model)
            if why is not None:
                raise part_losses.IndivisibleError.because(why)
            return self._engine.test_part(part, size / samples)
        except part_losses.IndivisibleError as error:
            self._is_keras_s = False
            say(f"evaluate: {error.message}; its loss is the mean of the parts' losses")
            return self._engine.test(part), None
