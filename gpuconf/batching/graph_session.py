"""``session_evaluate``: tensors of a TF1-style graph for all samples, batch by batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from gpuconf.backends.tensorflow.readback import of_session
from gpuconf.batching.array_rows import Rows
from gpuconf.batching.card import Card
from gpuconf.batching.card_batch import MOST_RETRIES, CardBatch, checked_retries
from gpuconf.batching.first_size import CAREFUL, host_batch
from gpuconf.batching.host_data import checked_batch_size
from gpuconf.batching.known_sizes import key_for
from gpuconf.batching.parts import in_parts
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
    most, retries = checked_batch_size(batch_size), checked_retries(max_retries)
    graph = _graph(session)
    fed = {_placeholder(graph, key): value for key, value in feed.items()}
    cut = _cut(graph, fed, whole)
    samples = _agreed_count(cut)
    results = SessionResults(graph, tensors, reduce, samples)
    card_batch = _size_for(session, cut, results.names, most, retries)
    run = functools.partial(_run, functools.partial(session.run, results.fetches), fed, cut)
    with progress_bar("session_evaluate", samples, progress) as advance:
        for found, size in in_parts(samples, card_batch, run, state=_LocalVariables(session)):
            results.add(found, size)
            advance(size)
    return results.result()


def _run(
    compute: Callable[..., Any], fed: dict[Any, Any], cut: dict[Any, Rows], start: int, end: int
) -> Any:
    import numpy as np

    places = np.arange(start, end)
    return compute({**fed, **{key: rows.at(places) for key, rows in cut.items()}})


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
    session: Any, cut: dict[Any, Rows], names: tuple[str, ...], most: int | None, max_retries: int
) -> CardBatch:
    limits = of_session(session)
    name, limit = min(limits.items(), default=("CPU:0", None))
    card = Card(name.rpartition("device:")[2] or name, limit)
    shapes = tuple(rows.sample_shape for rows in cut.values())
    is_auto = most is None
    sample_bytes = sum(rows.sample_bytes for rows in cut.values())
    return CardBatch(
        key_for("session", (names, shapes), card),
        what="session_evaluate",
        most=host_batch(sample_bytes) if most is None else most,
        start=CAREFUL if is_auto else None,
        room_to_double=(lambda: True) if is_auto else None,
        max_retries=max_retries,
    )


def _graph(session: Any) -> Any:
    if hasattr(session, "graph") and hasattr(session, "run"):
        return session.graph
    raise UsageError(
        f"session is a {type(session).__name__}, and must be a tf.compat.v1.Session",
        hint="gpuconf.evaluate(model, x, y), or gpuconf.predict(model, x), for a Keras model",
    )


def _placeholder(graph: Any, key: Any) -> Any:
    """The tensor that is fed; ``x`` is taken for the ``x:0`` that it makes."""
    element = fetched(graph, key)
    return element.outputs[0] if hasattr(element, "outputs") else element


def _cut(graph: Any, fed: dict[Any, Any], whole: Any) -> dict[Any, Rows]:
    """What is cut into batches, by placeholder; floats in the placeholder's precision."""
    kept = {id(_placeholder(graph, key)) for key in _as_list(whole)}
    return {
        key: Rows(value, key.dtype.as_numpy_dtype if key.dtype.is_floating else "float64")
        for key, value in fed.items()
        if id(key) not in kept and _is_open(key, value)
    }


def _as_list(whole: Any) -> list[Any]:
    return list(whole) if isinstance(whole, (list, tuple, set, frozenset)) else [whole]


def _is_open(placeholder: Any, value: Any) -> bool:
    """Whether the placeholder takes any number of samples, and the value has some."""
    import numpy as np
    import tensorflow as tf

    if not isinstance(placeholder, tf.Tensor):
        return False
    shape = placeholder.shape
    is_open = shape.rank is None or (shape.rank > 0 and shape[0] is None)
    return is_open and len(value.shape if hasattr(value, "shape") else np.shape(value)) > 0


def _agreed_count(cut: dict[Any, Rows]) -> int:
    counts = {rows.count for rows in cut.values()}
    if len(counts) == 1 and counts != {0}:
        return counts.pop()
    told = ", ".join(f"{key.name} {rows.count}" for key, rows in cut.items())
    raise UsageError(
        f"the arrays that are to be cut have no samples, or different numbers of them: {told}"
        if cut
        else "no placeholder of the feed has an open first dimension, so nothing can be cut",
        hint="whole=[placeholder] for what is fed as it is",
    )
