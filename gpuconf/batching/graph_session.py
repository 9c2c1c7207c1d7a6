"""``session_evaluate``: tensors of a TF1-style graph for all samples, batch by batch."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from gpuconf.backends.tensorflow.readback import of_session
from gpuconf.batching import nests
from gpuconf.batching.card import Card
from gpuconf.batching.card_batch import MOST_RETRIES, CardBatch, attempt
from gpuconf.batching.first_size import CAREFUL, host_batch
from gpuconf.batching.host_data import checked_batch_size
from gpuconf.batching.known_sizes import key_for
from gpuconf.batching.progress import progress_bar
from gpuconf.batching.session_results import SessionResults, fetched
from gpuconf.errors import UsageError


def session_evaluate(
    session: Any,
    tensors: Any,
    feed: Mapping[Any, Any],
    batch_size: int | str = "auto",
    *,
    whole: Any = (),
    reduce: Any = "mean",
    max_retries: int = MOST_RETRIES,
    progress: bool | None = None,
) -> Any:
    """``session.run(tensors, feed)`` for any number of samples, in batches that fit the card.

    ``tensors`` is what ``session.run`` takes: a tensor, an operation, a name, or a nest of them.
    Of ``feed``, arrays for placeholders whose first dimension is open are cut into batches;
    others, scalars, and the placeholders in ``whole`` are fed as they are each time.

    A result with a row for each sample is joined; a scalar is averaged over the samples
    (``reduce="mean"``, what a mean over the batch needs), or ``"sum"``, or ``"last"``, as an
    update operation of ``tf.compat.v1.metrics`` needs; a dict gives it by tensor.  A batch that
    does not fit is cut in halves; local variables, in which such metrics count, are put back
    before.  ``batch_size="auto"`` begins small and doubles as long as that runs.

    Raises UsageError for arrays of different lengths or where nothing is to be cut, and where one
    sample does not fit, or after ``max_retries``, TensorFlow's own error.
    """
    most = checked_batch_size(batch_size)
    graph = session.graph
    fed = {_tensor(graph, key): value for key, value in feed.items()}
    kept = {id(_tensor(graph, key)) for key in _as_list(whole)}
    cut = {
        key: _rows(value)
        for key, value in fed.items()
        if id(key) not in kept and _is_open(key, value)
    }
    samples = _agreed_count(cut)
    results = SessionResults(graph, tensors, reduce, samples)
    card_batch = _size_for(session, cut, results.names, most, max_retries)
    local = _LocalVariables(session)
    start = 0
    with progress_bar("session_evaluate", samples, progress) as advance:
        while start < samples:
            size = min(card_batch.size, samples - start)
            part = {key: rows[start : start + size] for key, rows in cut.items()}
            local.hold()
            found, failure = attempt(
                functools.partial(session.run, results.fetches, {**fed, **part})
            )
            if failure is not None:
                local.put_back()
                card_batch.failed(failure, size)
                continue
            card_batch.succeeded(size)
            results.add(found, size)
            start += size
            advance(size)
    return results.result()


class _LocalVariables:
    """What ``tf.compat.v1.metrics`` count in, and other local variables of the graph."""

    def __init__(self, session: Any) -> None:
        from tensorflow.compat import v1

        self._session = session
        with session.graph.as_default():
            found = v1.local_variables() + v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)
        self._variables = list({id(each): each for each in found}.values())
        self._values: list[Any] = []

    def hold(self) -> None:
        """Note the values; those that nothing has set yet have none."""

        if not self._variables:
            return
        self._values = [self._value(variable) for variable in self._variables]

    def _value(self, variable: Any) -> Any:
        import tensorflow as tf

        try:
            return self._session.run(variable)
        except tf.errors.FailedPreconditionError:
            return None

    def put_back(self) -> None:
        """Undo what a batch that failed has counted."""
        for variable, value in zip(self._variables, self._values, strict=False):
            if value is not None:
                # As `Variable.load` does it: the initializer with another value, nothing new.
                initializer = variable.initializer
                self._session.run(initializer, {initializer.inputs[1]: value})


def _size_for(
    session: Any, cut: dict[Any, Any], names: tuple[str, ...], most: int | None, max_retries: int
) -> CardBatch:
    limits = of_session(session)
    name, limit = min(limits.items(), default=("CPU:0", None))
    card = Card(name.rpartition("device:")[2] or name, limit)
    shapes = tuple(tuple(rows.shape[1:]) for rows in cut.values())
    is_auto = most is None
    sample_bytes = sum(math.prod(rows.shape[1:]) * rows.dtype.itemsize for rows in cut.values())
    return CardBatch(
        key_for("session", (names, shapes), card),
        what="session_evaluate",
        most=host_batch(sample_bytes) if most is None else most,
        start=CAREFUL if is_auto else None,
        room_to_double=(lambda: True) if is_auto else None,
        max_retries=max_retries,
    )


def _tensor(graph: Any, key: Any) -> Any:
    return fetched(graph, key)


def _as_list(whole: Any) -> list[Any]:
    return list(whole) if isinstance(whole, (list, tuple, set, frozenset)) else [whole]


def _is_open(placeholder: Any, value: Any) -> bool:
    """Whether the placeholder takes any number of samples, and the value has some."""
    import numpy as np

    shape = getattr(placeholder, "shape", None)
    is_open = shape is None or shape.rank is None or (shape.rank > 0 and shape[0] is None)
    return is_open and len(getattr(value, "shape", np.shape(value))) > 0


def _rows(value: Any) -> Any:
    import numpy as np

    if hasattr(value, "iloc"):
        return value.to_numpy()
    return value if hasattr(value, "shape") else np.asarray(value)


def _agreed_count(cut: dict[Any, Any]) -> int:
    counts = {nests.count(rows) for rows in cut.values()}
    if len(counts) == 1 and counts != {0}:
        return counts.pop()
    told = ", ".join(f"{key.name} {len(rows)}" for key, rows in cut.items())
    raise UsageError(
        f"the arrays that are to be cut have no samples, or different numbers of them: {told}"
        if cut
        else "no placeholder of the feed has an open first dimension, so nothing can be cut",
        hint="whole=[placeholder] for what is fed as it is",
    )
