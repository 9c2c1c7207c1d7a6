"""``predict``: batches that fit the GPU, outputs gathered on the host or in a file."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

from gpuconf.batching.data.host_data import HostData, host_data
from gpuconf.batching.failures import explained
from gpuconf.batching.first_size import size_for
from gpuconf.batching.gathering import GatheredOutputs
from gpuconf.batching.parts import even, in_parts
from gpuconf.batching.size import MOST_RETRIES, CardBatch, checked_retries
from gpuconf.batching.steps.engines import Engine, engine_of
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.families import family_on_any_backend
from gpuconf.support.keras_api.stepping import check_strategy

_QUEUED = 10  # Keras's max_queue_size


def predict(  # noqa: PLR0917  # Keras's signature
    model: Any,
    x: Any = None,
    batch_size: int | str | None = "auto",
    verbose: Any = "auto",
    steps: int | None = None,
    callbacks: Any = None,
    *,
    out: Any = None,
    max_retries: int = MOST_RETRIES,
) -> Any:
    """Keras's ``model.predict``, in batches that fit the GPU.

    The arguments and the result are the same as in Keras. Data is handled and steps run as in
    `evaluate`. Outputs leave the GPU after each batch, whereas Keras keeps them there until the
    end. They are written into ``out`` if given, otherwise into new arrays. ``out`` is an array or
    memmap for the outputs of all samples, or several of these, nested like the model's outputs.

    Raises the errors of `evaluate`, and UsageError if ``out`` does not have the outputs' shape.
    """
    family = family_on_any_backend(model)
    check_strategy(model, "predict")
    engine = engine_of(model)
    floatx, backend = family.keras.backend.floatx(), family.backend
    given = host_data(x, batch_size=batch_size, floatx=floatx, backend=backend, steps=steps)
    steps = given.batches if steps is None else steps
    samples = given.samples if steps == given.batches else None
    gathered = GatheredOutputs(samples=samples, out=out)
    step = _PredictStep(model, engine, is_auto=given.is_auto, max_retries=max_retries)
    if not isinstance(callbacks, family.keras.callbacks.CallbackList):
        callbacks = family.keras.callbacks.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=1 if verbose == "auto" else verbose,
            epochs=1,
            steps=steps,
            model=model,
        )
    batches = _batches(given, steps)
    try:
        with closing(batches):
            explained("predict", partial(_run, model, batches, callbacks, step, gathered))
    finally:
        engine.end()
    return gathered.result()


def _run(
    model: Any, batches: Iterable[Any], callbacks: Any, step: Any, gathered: GatheredOutputs
) -> None:
    """Keras's ``predict`` loop; callbacks receive the outputs as arrays."""
    model.stop_predicting = False
    callbacks.on_predict_begin()
    for number, data in enumerate(batches):
        callbacks.on_predict_batch_begin(number)
        outputs = step(data, gathered)
        callbacks.on_predict_batch_end(number, {"outputs": outputs})
        if model.stop_predicting:
            break
    callbacks.on_predict_end()


def _batches(given: HostData, steps: int | None) -> Generator[Any, None, None]:
    """Yield at most ``steps`` batches of arrays, a dataset, a PyDataset or a generator."""
    if given.rows is not None:
        yield from itertools.islice(given.rows.batches(), steps)
        return
    data = given.arguments["x"]
    if hasattr(data, "row_splits"):
        raise UsageError(
            "x is a single ragged tensor, but ragged data must come in batches",
            hint="tf.data.Dataset.from_tensor_slices(x).batch(32)",
        )
    yield from batches_of(data, steps) if is_sequence(data) else itertools.islice(data, steps)


class _PredictStep:
    """Run a batch through ``predict_step``, in parts that fit the GPU."""

    def __init__(self, model: Any, engine: Engine, *, is_auto: bool, max_retries: int) -> None:
        self._model = model
        self._engine = engine
        self._is_auto = is_auto
        self._max_retries = checked_retries(max_retries)
        self._card_batch: CardBatch | None = None

    def __call__(self, data: Any, gathered: GatheredOutputs) -> Any:
        """Write the outputs and return the outputs of the whole batch."""
        data = self._engine.batch(data)
        if self._card_batch is None:
            self._engine.begin("predict", data)
            self._card_batch = size_for(
                "predict", self._model, data, is_auto=self._is_auto, max_retries=self._max_retries
            )
        run = partial(self._run_to_host, data)
        samples, state = nests.count(data), self._engine.state
        parts = in_parts(samples, self._card_batch, run, state=state, cut=even)
        written = [gathered.add(outputs, samples) for outputs, samples in parts]
        return nests.joined(written)

    def _run_to_host(self, data: Any, start: int, end: int) -> Any:
        """The outputs of a part, copied to the host; the copy may run out of memory, too."""
        return nests.mapped(nests.on_host, self._engine.predict(nests.part(data, start, end)))


def is_sequence(data: Any) -> bool:
    """Whether batches are indexed: a PyDataset, a Keras 2 Sequence, or similar."""
    return hasattr(data, "__getitem__") and _length_of(data) is not None


def batches_of(data: Any, steps: int | None) -> Generator[Any, None, None]:
    """Yield the batches of one epoch in order, at most ``steps`` of them.

    With more than one worker, threads read ahead; where Keras would use processes, these are
    threads, too.
    """
    batches = _length_of(data)
    assert batches is not None
    count = batches if steps is None else min(batches, steps)
    _call(data, "on_epoch_begin")
    workers = int(getattr(data, "workers", None) or 1)
    if workers > 1:
        yield from _read_ahead(data, count, workers)
    else:
        yield from map(data.__getitem__, range(count))
    _call(data, "on_epoch_end")


def _read_ahead(data: Any, count: int, workers: int) -> Iterator[Any]:
    most = int(getattr(data, "max_queue_size", None) or _QUEUED)
    waiting: deque[Future[Any]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="gpuconf-predict")
    try:
        for number in range(count):
            waiting.append(pool.submit(data.__getitem__, number))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _length_of(data: Any) -> int | None:
    """The length; Keras 3 requests ``num_batches``, which defaults to the length."""
    if hasattr(data, "num_batches"):
        return None if data.num_batches is None else int(data.num_batches)
    return len(data) if hasattr(data, "__len__") else None


def _call(data: Any, hook: str) -> None:
    """Call a hook if the object has it; older classes do not."""
    getattr(data, hook, lambda: None)()
