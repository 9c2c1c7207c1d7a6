"""The data for ``fit``, ``evaluate`` and ``predict``, prepared in batches on the host.

Keras turns an entire array into one tensor, on the GPU if there is one.  Here the array is cut into
batches on the host.  Data that comes in batches (datasets, PyDatasets, generators) is unchanged.

With the same seed (``keras.utils.set_random_seed``), the order is the same as for ``model.fit`` on
arrays. TensorFlow seeds each operation by the number of operations before it in its function, so
the shuffling function has the same operations as Keras's (keras/src/trainers/data_adapters/
array_data_adapter.py), and a test compares the orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from gpuconf.basics.arguments import whole_number
from gpuconf.basics.units import MIB
from gpuconf.batching.card import current_card
from gpuconf.batching.data.rows import SampleRows, is_rows
from gpuconf.batching.first_size import CAREFUL, host_batch
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.batches import PER_EXAMPLE
from gpuconf.support.keras_api.stepping import building_by
from gpuconf.support.pipeline_calls import ending_early

# Up to this total size, the samples are copied to a tensor on the host, as Keras does at any size.
# For larger samples the steps take longer, so the time for reading them in Python is negligible.
_LITTLE_BYTES = 64 * MIB


class HostData(NamedTuple):
    """The arguments for Keras, and the numbers of samples and batches (None if unknown).

    With ``rows``, Keras receives the indices of the samples.
    """

    arguments: dict[str, Any]
    is_auto: bool
    samples: int | None = None
    batches: int | None = None
    rows: IndexedRows | None = None

    def reading(self, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Wrap a step so that it receives a batch of samples, even if Keras passes indices."""
        rows = self.rows
        return step if rows is None else lambda data: step(rows.of_batch(data))

    def building(self, model: Any) -> AbstractContextManager[None]:
        """Within the context, Keras builds the model from samples even if it receives indices.

        Two samples are used: Keras on PyTorch may run the model, and a full batch may not fit.
        """
        rows = self.rows
        if rows is None:
            return nullcontext()
        return building_by(model, lambda data: nests.part(rows.of_batch(data), 0, 2))


def host_data(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    floatx: str,
    batch_size: int | str | None,
    backend: str = "tensorflow",
    shuffle: bool | str = False,
    repeats: int = 1,
    section: tuple[float, float] = (0.0, 1.0),
    steps: int | None = None,
) -> HostData:
    """Return the data for Keras: a dataset on TensorFlow, sample indices on other backends.

    ``floatx`` is the precision that Keras computes in.  ``section`` is the range of samples to
    use, as two fractions.  ``steps`` without a batch size splits all samples into that many
    batches, as in Keras.  ``repeats`` is the number of epochs in the dataset: Keras 2 reshuffles
    only within one dataset.

    Raises UsageError for arrays of different lengths, or an invalid batch size.
    """
    size = checked_batch_size(batch_size)
    if x is None:
        raise UsageError("there is no data: x is None", hint="fit(model, x, y)")
    if not is_rows(x):
        given = {"x": x, "y": y, "sample_weight": sample_weight, "batch_size": size}
        given = {name: value for name, value in given.items() if value is not None or name == "x"}
        return HostData(given, is_auto=batch_size == "auto")
    nest = _without_last_nones((x, y, sample_weight))
    rows = [SampleRows(leaf, floatx) for leaf in nests.leaves(nest)]
    count = _agreed_count(nest, rows)
    first, end = (math.floor(count * share) for share in section)
    if end <= first:
        raise UsageError(
            f"none of the {count} samples are left: validation_split takes all or none of them",
            hint="validation_split=0.2",
        )
    if size is None and steps:
        size = math.ceil((end - first) / steps)
    elif size is None:
        size = _automatic(rows, backend) if batch_size == "auto" else CAREFUL
    places = SampleIndices(first, end - first, size)
    counts = (batch_size == "auto", places.samples, places.batches)
    if backend != "tensorflow":
        placed = IndexedRows(nest, rows, places)
        return HostData({"x": placed.places, "batch_size": size}, *counts, placed)
    return HostData({"x": _dataset(nest, rows, places, shuffle, repeats)}, *counts)


def _automatic(rows: list[SampleRows], backend: str) -> int:
    """Return the number of samples per host batch: many if the GPU's limit is known, else 32."""
    if current_card(backend).limit_bytes is None:
        return CAREFUL
    return host_batch(sum(each.sample_bytes for each in rows))


def checked_batch_size(
    batch_size: Any, *, name: str = "batch_size", hint: str = 'batch_size="auto"'
) -> int | None:
    """Return the number; None for ``"auto"`` or no value.  Raises UsageError for anything else."""
    if batch_size is None or (isinstance(batch_size, str) and batch_size == "auto"):
        return None
    otherwise = '"auto"' if "auto" in hint else ""
    return whole_number(name, batch_size, hint=hint, otherwise=otherwise)


def _agreed_count(nest: Any, rows: list[SampleRows]) -> int:
    """Return the number of samples, which must be equal in x, y and the weights."""
    counts = {each.count for each in rows}
    if len(counts) > 1:
        names = [
            name for part, name in zip(nest, PER_EXAMPLE, strict=False) for _ in nests.leaves(part)
        ]
        named = [f"{name} {each.count}" for name, each in zip(names, rows, strict=True)]
        raise UsageError(
            f"the arrays have different numbers of samples: {', '.join(named)}",
            hint=f"print({', '.join(f'len({name})' for name in dict.fromkeys(names))})",
        )
    if counts == {0}:
        raise UsageError("the arrays have no samples", hint="print(x.shape)")
    return rows[0].count


def _dataset(
    nest: Any, rows: list[SampleRows], places: SampleIndices, shuffle: bool | str, repeats: int
) -> Any:
    """A ``tf.data.Dataset`` of batches, each cut on the host while the previous step runs."""
    import tensorflow as tf

    nest = _as_tuples(nest)
    with tf.device("CPU:0"):
        read = _by_tensorflow(rows) if _may_be_copied(rows) else _by_python(rows)

    def batch(indices: Any) -> Any:
        return nests.refilled(nest, read(indices))

    with tf.device("CPU:0"):
        dataset = batches_of_places(places, shuffle, repeats).map(batch).prefetch(2)
        counted = tf.data.experimental.assert_cardinality(repeats * places.batches)
        return dataset.apply(counted)


def _may_be_copied(rows: list[SampleRows]) -> bool:
    """Whether copying all samples in host memory is cheap and uses up no CPU memory limit."""
    if not all(each.is_array_of_numbers for each in rows):
        return False
    card = current_card()
    is_limited = card.name.startswith("CPU") and card.limit_bytes is not None
    return not is_limited and sum(each.sample_bytes * each.count for each in rows) <= _LITTLE_BYTES


def _by_tensorflow(rows: list[SampleRows]) -> Callable[[Any], list[Any]]:
    """Map indices to samples with TensorFlow: Python would wait for the loop running the steps."""
    import tensorflow as tf

    tensors = [tf.constant(each.all()) for each in rows]
    return lambda places: [tf.gather(tensor, places) for tensor in tensors]


def _by_python(rows: list[SampleRows]) -> Callable[[Any], list[Any]]:
    """Do the same in Python for large data and for non-arrays; only the batch is copied."""
    import tensorflow as tf

    types = [tf.as_dtype(each.dtype) for each in rows]
    look_up = ending_early(lambda places: [each.at(places) for each in rows], _refuse)

    def read(places: Any) -> list[Any]:
        found = list(tf.numpy_function(look_up, [places], types))
        for tensor, each in zip(found, rows, strict=True):
            tensor.set_shape((None, *each.sample_shape))
        return found

    return read


def _refuse(_: Any) -> Any:
    raise RuntimeError("the program is ending: no more data is read")


def _without_last_nones(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    while parts[-1] is None:
        parts = parts[:-1]
    return parts


def _as_tuples(nest: Any) -> Any:
    """Replace lists with tuples: tf.data would turn a list into one tensor."""
    if isinstance(nest, (tuple, list)) and not nests.is_written_out(nest):
        return tuple(_as_tuples(part) for part in nest)
    if isinstance(nest, dict):
        return {key: _as_tuples(part) for key, part in nest.items()}
    return nest


class IndexedRows:
    """Samples that are read by index; Keras shuffles and batches the indices.

    The order is therefore the same as for arrays. JAX, which sends each batch to the GPU ahead of
    its step, sends only the indices.
    """

    def __init__(self, nest: Any, rows: list[SampleRows], places: SampleIndices) -> None:
        import numpy as np

        self._nest, self._rows, self._size = nest, rows, places.size
        self.places = np.arange(places.first, places.first + places.samples)

    def of_batch(self, data: Any) -> Any:
        """The samples at the indices that Keras passes."""
        (places,) = nests.leaves(data)
        return self._at(nests.on_host(places))

    def batches(self) -> Iterator[Any]:
        """All samples, batch by batch."""
        for start in range(0, len(self.places), self._size):
            yield self._at(self.places[start : start + self._size])

    def _at(self, places: Any) -> Any:
        return nests.refilled(self._nest, [each.at(places) for each in self._rows])


class SampleIndices(NamedTuple):
    """``samples`` indices from ``first``, in batches of ``size``; the last may be shorter."""

    first: int
    samples: int
    size: int

    @property
    def batches(self) -> int:
        """The number of batches."""
        return math.ceil(self.samples / self.size)


def batches_of_places(places: SampleIndices, shuffle: bool | str, repeats: int) -> Any:
    """A ``tf.data.Dataset`` of int64 indices in batches.

    ``shuffle`` takes the Keras 3 values: True, False, or ``"batch"``, which shuffles within each
    batch.
    """
    import tensorflow as tf

    first, samples, size = places

    def of_epoch(_: Any) -> Any:
        indices = tf.range(samples, dtype=tf.int64)
        if shuffle and shuffle != "batch":
            indices = tf.random.shuffle(indices)
        return indices + first if first else indices

    def in_batches(indices: Any) -> Any:
        whole = samples // size * size
        batches = tf.data.Dataset.from_tensor_slices(tf.reshape(indices[:whole], [-1, size]))
        if whole < samples:
            batches = batches.concatenate(tf.data.Dataset.from_tensors(indices[whole:]))
        return batches

    epochs = tf.data.Dataset.range(1)
    if repeats > 1:
        epochs = epochs.repeat(repeats)
    batches = epochs.map(of_epoch).prefetch(1).flat_map(in_batches)
    return batches.map(tf.random.shuffle) if shuffle == "batch" else batches
