"""``session_evaluate``: evaluate tensors of a TF1 graph for all samples, batch by batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from gpuconf.backends.tensorflow.readback import of_session
from gpuconf.basics.terminal import say
from gpuconf.batching.card import ComputeDevice
from gpuconf.batching.data.host_data import checked_batch_size
from gpuconf.batching.data.rows import SampleRows
from gpuconf.batching.first_size import CAREFUL, host_batch
from gpuconf.batching.parts import in_parts, progress_bar
from gpuconf.batching.size import MOST_RETRIES, CardBatch, checked_retries, key_for
from gpuconf.errors import UsageError

_WAYS = ("mean", "sum", "last")


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
    """``session.run(tensors, feed)`` for any number of samples, in batches that fit the GPU.

    ``tensors`` is what ``session.run`` accepts: a tensor, an operation, a name, or a nest of them.
    Arrays in ``feed`` are cut into batches if their placeholder's first dimension is None.  All
    other values, scalars, and the placeholders in ``whole`` are fed unchanged each time.

    A result with one row per sample is joined.  A scalar is averaged over the samples
    (``reduce="mean"``, for a mean over the batch), summed (``"sum"``), or taken from the last
    batch (``"last"``, for an update operation of ``tf.compat.v1.metrics``).  A dict gives the
    reduction by tensor.  A batch that does not fit is halved; local variables, in which such
    metrics accumulate, are restored first.  ``batch_size="auto"`` starts small and doubles as
    long as batches fit.

    Raises UsageError for arrays of different lengths or if there is nothing to cut.  If one sample
    does not fit, or after ``max_retries``, TensorFlow's own error is raised.
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
    compute: Callable[..., Any],
    fed: dict[Any, Any],
    cut: dict[Any, SampleRows],
    start: int,
    end: int,
) -> Any:
    import numpy as np

    places = np.arange(start, end)
    return compute({**fed, **{key: rows.at(places) for key, rows in cut.items()}})


class _LocalVariables:
    """The graph's local variables, in which ``tf.compat.v1.metrics`` accumulate."""

    def __init__(self, session: Any) -> None:
        from tensorflow.compat import v1

        self._session = session
        with session.graph.as_default():
            found = v1.local_variables() + v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)
        self._variables = list({id(each): each for each in found}.values())
        self._values: list[Any] = []

    def hold(self) -> None:
        """Save the values; uninitialized variables have none."""
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
        """Undo the changes of a failed batch."""
        for variable, value in zip(self._variables, self._values, strict=False):
            if value is not None:
                # As in `Variable.load`: run the initializer with another value, which adds
                # nothing to the graph.
                initializer = variable.initializer
                self._session.run(initializer, {initializer.inputs[1]: value})


def _size_for(
    session: Any,
    cut: dict[Any, SampleRows],
    names: tuple[str, ...],
    most: int | None,
    max_retries: int,
) -> CardBatch:
    limits = of_session(session)
    name, limit = min(limits.items(), default=("CPU:0", None))
    card = ComputeDevice(name.rpartition("device:")[2] or name, limit)
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
        f"session must be a tf.compat.v1.Session, not {type(session).__name__}",
        hint="gpuconf.evaluate(model, x, y), or gpuconf.predict(model, x), for a Keras model",
    )


def _placeholder(graph: Any, key: Any) -> Any:
    """The tensor to feed; ``x`` means its output ``x:0``."""
    element = fetched(graph, key)
    return element.outputs[0] if hasattr(element, "outputs") else element


def _cut(graph: Any, fed: dict[Any, Any], whole: Any) -> dict[Any, SampleRows]:
    """The values to cut into batches, by placeholder; floats in the placeholder's precision."""
    kept = {id(_placeholder(graph, key)) for key in _as_list(whole)}
    return {
        key: SampleRows(value, key.dtype.as_numpy_dtype if key.dtype.is_floating else "float64")
        for key, value in fed.items()
        if id(key) not in kept and _is_open(key, value)
    }


def _as_list(whole: Any) -> list[Any]:
    return list(whole) if isinstance(whole, (list, tuple, set, frozenset)) else [whole]


def _is_open(placeholder: Any, value: Any) -> bool:
    """Whether the placeholder takes any number of samples, and the value has samples."""
    import numpy as np
    import tensorflow as tf

    if not isinstance(placeholder, tf.Tensor):
        return False
    shape = placeholder.shape
    is_open = shape.rank is None or (shape.rank > 0 and shape[0] is None)
    return is_open and len(value.shape if hasattr(value, "shape") else np.shape(value)) > 0


def _agreed_count(cut: dict[Any, SampleRows]) -> int:
    counts = {rows.count for rows in cut.values()}
    if len(counts) == 1 and counts != {0}:
        return counts.pop()
    given = ", ".join(f"{key.name} {rows.count}" for key, rows in cut.items())
    raise UsageError(
        f"the arrays that are to be cut have no samples, or different numbers of them: {given}"
        if cut
        else "no placeholder of the feed has an open first dimension, so nothing can be cut",
        hint="whole=[placeholder] for values that are fed uncut",
    )


class SessionResults:
    """Results of all batches: rows are joined, scalars reduced, operations give None."""

    def __init__(self, graph: Any, tensors: Any, reduce: Any, samples: int) -> None:
        import tensorflow as tf

        self._nest = tensors
        flat = tf.nest.flatten(tensors)
        self.fetches = [fetched(graph, each) for each in flat]
        self.names = tuple(each.name for each in self.fetches)
        self._ways = [
            _way(reduce, given, each) for given, each in zip(flat, self.fetches, strict=True)
        ]
        _check_keys(reduce, flat, self.names)
        self._samples = samples
        self._filled = 0
        self._summed_up: dict[int, Any] = {}  # dtypes of the values to average
        self._totals: list[Any] = [None] * len(self.fetches)

    def add(self, found: list[Any], size: int) -> None:
        """Add the results of one batch of this size."""
        import numpy as np

        for number, value in enumerate(found):
            if value is None:
                continue
            array = np.asarray(value)
            if self._has_rows(number, array, size):
                if self._totals[number] is None:
                    shape = (self._samples, *array.shape[1:])
                    self._totals[number] = np.empty(shape, array.dtype)
                self._totals[number][self._filled : self._filled + size] = array
            else:
                self._totals[number] = self._reduced(number, array, size)
        self._filled += size

    def result(self) -> Any:
        """All results, nested like the tensors."""
        import tensorflow as tf

        ended = [self._ended(number) for number in range(len(self.fetches))]
        return tf.nest.pack_sequence_as(self._nest, ended)

    def _ended(self, number: int) -> Any:
        """Divide the sum by the samples; the mean of integers is a float."""
        total = self._totals[number]
        if total is None or number not in self._summed_up:
            return total
        mean, dtype = total / self._filled, self._summed_up[number]
        return mean.astype(dtype) if dtype.kind == "f" else mean

    def _has_rows(self, number: int, array: Any, size: int) -> bool:
        shape = self.fetches[number].shape
        if shape.rank is None:
            return bool(array.ndim and len(array) == size)
        is_open = shape.rank > 0 and shape[0] is None
        if is_open and len(array) != size:
            raise UsageError(
                f"{self.names[number]} has {len(array)} rows for {size} samples, so that it "
                "cannot be joined",
                hint="fetch a tensor with a row for each sample, or a scalar",
            )
        return is_open

    def _reduced(self, number: int, array: Any, size: int) -> Any:
        """Reduce a scalar, or a value whose shape does not depend on the batch."""
        total = self._totals[number]
        if self._ways[number] == "last":
            return array[()]
        if self._ways[number] == "sum":
            return array[()] if total is None else total + array
        if number not in self._summed_up and array.dtype.kind in "iu":
            say(
                f"session_evaluate: {self.names[number]} is a whole number, and the mean over the "
                f'samples is given; of a count: reduce={{"{self.names[number]}": "sum"}}'
            )
        self._summed_up[number] = array.dtype
        share = array.astype("float64") * size
        return share if total is None else total + share


def fetched(graph: Any, fetch: Any) -> Any:
    """The graph element with this name; anything but a name is returned unchanged."""
    if not isinstance(fetch, str):
        return fetch
    try:
        return graph.as_graph_element(fetch)
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"the graph has no {fetch}: {error.args[0]}",
            hint="print([each.name for each in session.graph.get_operations()])",
        ) from None


def _check_keys(reduce: Any, flat: list[Any], names: tuple[str, ...]) -> None:
    """Reject misspelt names, which would silently get a mean."""
    for key in reduce if isinstance(reduce, dict) else ():
        if key not in names and not any(key is each for each in flat):
            raise UsageError(
                f"reduce names {key!r}, which is not among the tensors: {', '.join(names)}",
                hint=f'reduce={{"{names[0]}": "mean"}}',
            )


def _way(reduce: Any, given: Any, fetch: Any) -> str:
    way = reduce
    if isinstance(reduce, dict):
        way = next(
            (value for key, value in reduce.items() if key is given or key == fetch.name), "mean"
        )
    if way not in _WAYS:
        raise UsageError(
            f"reduce is {way!r}, and must be one of {', '.join(_WAYS)}", hint='reduce="mean"'
        )
    return str(way)
