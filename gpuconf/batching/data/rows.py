"""Rows of samples in host RAM or on disk, read one batch at a time."""

from __future__ import annotations

from typing import Any

from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests


class SampleRows:
    """Samples from one array, memmap, HDF5 dataset, frame, sparse matrix, tensor or list.

    Floats are converted to the precision that Keras computes in, as in Keras's own adapters.
    """

    def __init__(self, source: Any, floatx: str) -> None:
        import numpy as np

        _check_columns(source)
        self._source = _sliceable(source)
        shape = tuple(self._source.shape)
        if not shape:
            raise UsageError(
                f"data with shape () has no samples: {source!r:.60}", hint="x=np.array([...])"
            )
        _check_not_mixed(self._source)
        self.count = int(shape[0])
        self.sample_shape = tuple(int(size) for size in shape[1:])
        given = np.dtype(self._source.dtype)
        self.dtype = np.dtype(floatx) if given.kind == "f" else given
        self._is_sparse = hasattr(self._source, "tocsr")
        self._is_in_memory = isinstance(self._source, np.ndarray)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample after conversion."""
        total = int(self.dtype.itemsize) or 1
        for size in self.sample_shape:
            total *= size
        return total

    @property
    def is_array_of_numbers(self) -> bool:
        """Whether this is an array of numbers in memory, which converts directly to a tensor."""
        import numpy as np

        return type(self._source) is np.ndarray and self.dtype.kind in "biufc"

    def all(self) -> Any:
        """All rows, as one array."""
        return self._array(self._source)

    def at(self, indices: Any) -> Any:
        """The rows at these indices, in this order, as a new array."""
        import numpy as np

        first, last = int(indices[0]), int(indices[-1])
        if last - first + 1 == len(indices) and (np.diff(indices) == 1).all():
            return self._array(self._source[first : last + 1])
        if self._is_in_memory:
            return self._array(self._source[indices])
        # HDF5 accepts only increasing indices.
        order = np.argsort(indices, kind="stable")
        rows = self._array(self._source[indices[order]])
        found = np.empty_like(rows)
        found[order] = rows
        return found

    def _array(self, rows: Any) -> Any:
        import numpy as np

        return np.asarray(rows.toarray() if self._is_sparse else rows, dtype=self.dtype)


def is_rows(data: Any) -> bool:
    """Whether the data consists of arrays, or a nest of arrays, that can be cut into batches."""
    parts = nests.leaves(data)
    return bool(parts) and all(_has_rows(leaf) for leaf in parts)


def _has_rows(leaf: Any) -> bool:
    if isinstance(leaf, (int, float, str, bytes)) or nests.is_written_out(leaf):
        return True
    is_ragged = hasattr(leaf, "row_splits")
    return hasattr(leaf, "tocsr") or (
        hasattr(leaf, "shape") and hasattr(leaf, "__getitem__") and not is_ragged
    )


def _sliceable(source: Any) -> Any:
    """Return the source if its rows can be sliced, or else an array made from it."""
    if hasattr(source, "iloc"):  # pandas
        return source.to_numpy()
    if hasattr(source, "tocsr"):
        return source.tocsr()
    is_tensor = hasattr(source, "numpy") or type(source).__module__.startswith("jax")
    if is_tensor or not (hasattr(source, "shape") and hasattr(source, "dtype")):
        return nests.on_host(source)
    return source


def _check_columns(source: Any) -> None:
    """Raise UsageError for a frame with non-numeric columns, which cannot become one array."""
    kinds: Any = getattr(source, "dtypes", None)
    if not hasattr(source, "iloc") or not hasattr(kinds, "items") or len(kinds) < 2:
        return
    others = {name: kind for name, kind in kinds.items() if getattr(kind, "kind", "O") == "O"}
    if others and len(others) < len(kinds):
        listed = ", ".join(f"{name!r} ({kind})" for name, kind in list(others.items())[:5])
        raise UsageError(
            f"the DataFrame has non-numeric columns: {listed}",
            hint='x.select_dtypes("number"), or drop those columns: x.drop(columns=[...])',
        )


def _check_not_mixed(source: Any) -> None:
    """Raise UsageError for values of mixed types; text, too, becomes an array of objects."""
    import numpy as np

    if np.dtype(source.dtype).kind != "O":
        return
    values = source.flat if isinstance(source, np.ndarray) else source[:1].flat
    for value in values:
        if not isinstance(value, (str, bytes)):
            raise UsageError(
                f"the data has dtype object and includes {value!r:.60}, a {type(value).__name__}; "
                "the values must be all strings, or all numbers of one type",
                hint='x.astype("float32"), or for a DataFrame, x.select_dtypes("number")',
            )
