"""``session_evaluate``: evaluate tensors of a TF1 graph for all samples, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gpuconf.backends.tensorflow.readback import of_session
from gpuconf.basics.terminal import say
from gpuconf.batching.card import ComputeDevice
from gpuconf.batching.data.host_data import checked_batch_size
from gpuconf.batching.data.rows import SampleRows
from gpuconf.batching.first_size import CAREFUL, host_batch
from gpuconf.batching.gathering import GatheredOutputs
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
    Arrays in ``feed`` are cut into batches if their placeholder's first dimension is None. All
    other values, as well as scalars and the placeholders in ``whole``, are fed unchanged each time.

    A result with one row per sample is joined.  A scalar is averaged over the samples
    (``reduce="mean"``, for a mean over the batch), summed (``"sum"``), or taken from the last
    batch (``"last"``, for an update operation of ``tf.compat.v1.metrics``). A dict gives the
    reduction for each tensor. A batch that does not fit is halved; local variables, in which such
    metrics accumulate, are restored first. ``batch_size="auto"`` starts small and doubles as long
    as batches fit.

    Raises UsageError for arrays of different lengths or if there is nothing to cut.  If one sample
    does not fit, or after ``max_retries``, TensorFlow's own error is raised.
    """
    import numpy as np
    import tensorflow as tf

    most, retries = checked_batch_size(batch_size), checked_retries(max_retries)
    if not (hasattr(session, "graph") and hasattr(session, "run")):
        raise UsageError(
            f"session must be a tf.compat.v1.Session, not {type(session).__name__}",
            hint="gpuconf.evaluate(model, x, y), or gpuconf.predict(model, x), for a Keras model",
        )
    graph = session.graph
    fed = {_tensor(graph, key): value for key, value in feed.items()}
    kept = whole if isinstance(whole, (list, tuple, set, frozenset)) else [whole]
    cut = _cut(fed, {id(_tensor(graph, key)) for key in kept})
    samples = _agreed_count(cut)
    fetches = [_element(graph, each) for each in tf.nest.flatten(tensors)]
    ways = _ways(graph, reduce, [fetch.name for fetch in fetches])
    results = [_Result(fetch, ways[fetch.name], samples) for fetch in fetches]

    def run(start: int, end: int) -> Any:
        places = np.arange(start, end)
        batch = {key: rows.at(places) for key, rows in cut.items()}
        return session.run(fetches, {**fed, **batch})

    card_batch = _size_for(session, cut, tuple(ways), most, retries)
    with progress_bar("session_evaluate", samples, progress) as advance:
        for found, size in in_parts(samples, card_batch, run, state=_LocalVariables(session)):
            for result, value in zip(results, found, strict=True):
                result.add(value, size)
            advance(size)
    return tf.nest.pack_sequence_as(tensors, [result.value() for result in results])


class _LocalVariables:
    """The graph's local variables, in which ``tf.compat.v1.metrics`` accumulate."""

    def __init__(self, session: Any) -> None:
        from tensorflow.compat import v1

        self._session = session
        with session.graph.as_default():
            found = v1.local_variables() + v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)
        self._variables = list({id(each): each for each in found}.values())
        self._held: list[tuple[Any, Any]] = []

    def hold(self) -> None:
        """Save the values; uninitialized variables have none."""
        import tensorflow as tf

        self._held = []
        for variable in self._variables:
            with suppress(tf.errors.FailedPreconditionError):
                self._held.append((variable, self._session.run(variable)))

    def put_back(self) -> None:
        """Undo the changes of a failed batch."""
        for variable, value in self._held:
            # As in `Variable.load`: run the initializer with another value, which adds nothing to
            # the graph.
            initializer = variable.initializer
            self._session.run(initializer, {initializer.inputs[1]: value})


class _Result:
    """All results of one fetch: rows are joined, other results reduced; operations give None."""

    def __init__(self, fetch: Any, way: str, samples: int) -> None:
        self._fetch, self._way, self._samples = fetch, way, samples
        self._rows = GatheredOutputs(samples=samples)
        self._total: Any = None

    def add(self, value: Any, size: int) -> None:
        """Add the result of one batch of this size."""
        import numpy as np

        if value is None:
            return
        if self._has_rows(value, size):
            self._rows.add(value, size)
            return
        if self._way == "mean":
            value = np.asarray(value, "float64") * size
        is_first = self._total is None or self._way == "last"
        self._total = value if is_first else self._total + value

    def value(self) -> Any:
        """The result for all samples; the mean of integers is a float."""
        if self._total is None:
            return self._rows.result()
        if self._way != "mean":
            return self._total
        mean, dtype = self._total / self._samples, self._fetch.dtype
        if dtype.is_integer:
            name = self._fetch.name
            say(
                f"session_evaluate: {name} is an integer, but its mean over the samples is "
                f'returned; for a count: reduce={{"{name}": "sum"}}'
            )
        return mean.astype(dtype.as_numpy_dtype) if dtype.is_floating else mean

    def _has_rows(self, value: Any, size: int) -> bool:
        shape = self._fetch.shape
        if shape.rank is None:
            return bool(value.ndim and len(value) == size)
        is_open = shape.rank > 0 and shape[0] is None
        if is_open and len(value) != size:
            raise UsageError(
                f"{self._fetch.name} has {len(value)} rows for {size} samples, so its parts "
                "cannot be joined",
                hint="fetch a tensor with a row for each sample, or a scalar",
            )
        return is_open


def _element(graph: Any, key: Any) -> Any:
    """The tensor or operation with this name; anything but a name is returned unchanged."""
    return graph.as_graph_element(key) if isinstance(key, str) else key


def _tensor(graph: Any, key: Any) -> Any:
    """The tensor for a key; ``x`` means its output ``x:0``."""
    element = _element(graph, key)
    return element.outputs[0] if getattr(element, "outputs", None) else element


def _cut(fed: dict[Any, Any], kept: set[int]) -> dict[Any, SampleRows]:
    """The values to cut into batches, by placeholder; floats in the placeholder's precision."""
    import numpy as np
    import tensorflow as tf

    cut = {}
    for key, value in fed.items():
        if id(key) in kept or not isinstance(key, tf.Tensor):
            continue
        is_open = key.shape.rank is None or (key.shape.rank > 0 and key.shape[0] is None)
        if is_open and len(value.shape if hasattr(value, "shape") else np.shape(value)) > 0:
            floatx = key.dtype.as_numpy_dtype if key.dtype.is_floating else "float64"
            cut[key] = SampleRows(value, floatx)
    return cut


def _agreed_count(cut: dict[Any, SampleRows]) -> int:
    counts = {rows.count for rows in cut.values()}
    if len(counts) == 1 and counts != {0}:
        return counts.pop()
    given = ", ".join(f"{key.name} {rows.count}" for key, rows in cut.items())
    raise UsageError(
        f"the arrays to be split have no samples, or different numbers of samples: {given}"
        if cut
        else "no placeholder in the feed has an unspecified first dimension, "
        "so nothing can be split",
        hint="whole=[placeholder] for values that are fed without being split",
    )


def _ways(graph: Any, reduce: Any, names: list[str]) -> dict[str, str]:
    """How each fetch is reduced, by its name; ``mean`` if a dict does not name it."""
    is_dict = isinstance(reduce, dict)
    ways = dict.fromkeys(names, "mean" if is_dict else reduce)
    given = {_tensor(graph, key).name: way for key, way in reduce.items()} if is_dict else {}
    ways |= given
    if not set(given) <= set(names) or any(way not in _WAYS for way in ways.values()):
        raise UsageError(
            f"reduce is {reduce!r}; it must be one of {', '.join(_WAYS)}, or a dict of these "
            f"with keys from {', '.join(names)}",
            hint='reduce="mean"',
        )
    return ways


def _size_for(
    session: Any, cut: dict[Any, SampleRows], names: tuple[str, ...], most: int | None, retries: int
) -> CardBatch:
    name, limit = min(of_session(session).items(), default=("CPU:0", None))
    card = ComputeDevice(name.rpartition("device:")[2] or name, limit)
    shapes = tuple(rows.sample_shape for rows in cut.values())
    sample_bytes = sum(rows.sample_bytes for rows in cut.values())
    return CardBatch(
        key_for("session", (names, shapes), card),
        what="session_evaluate",
        most=host_batch(sample_bytes) if most is None else most,
        start=CAREFUL if most is None else None,
        room_to_double=(lambda: True) if most is None else None,
        max_retries=retries,
    )
