"""Rows of arrays, files, frames and sparse matrices: the right ones, in the right precision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as some

from gpuconf.batching.data.host_data import checked_batch_size, host_data
from gpuconf.batching.data.rows import SampleRows, is_rows
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests

VALUES = np.random.default_rng(5).normal(size=(40, 3))


def _memmap(folder: Path) -> Any:
    made: Any = np.lib.format.open_memmap
    array = made(folder / "x.npy", "w+", "float64", VALUES.shape)
    array[:] = VALUES
    return array


def _hdf5(folder: Path) -> Any:
    return h5py.File(folder / "x.h5", "w").create_dataset("x", data=VALUES)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "array": lambda _: VALUES,
    "transposed": lambda _: np.asfortranarray(VALUES),
    "memmap": _memmap,
    "hdf5": _hdf5,
    "frame": lambda _: pd.DataFrame(VALUES),
    "list": lambda _: VALUES.tolist(),
    "csr": lambda _: scipy.sparse.csr_matrix(VALUES),
    "coo": lambda _: scipy.sparse.coo_array(VALUES),
}


@pytest.fixture(scope="module", params=SOURCES)
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SampleRows:
    """Rows of one kind of source."""
    return SampleRows(SOURCES[request.param](tmp_path_factory.mktemp("rows")), "float32")


@given(some.permutations(range(40)), some.integers(1, 40), some.booleans())
def test_rows_come_in_the_order_asked_for(
    rows: SampleRows, order: list[int], size: int, is_sorted: bool
) -> None:
    """Any places in any order, and runs of them; in Keras's own precision."""
    places = np.array(sorted(order[:size]) if is_sorted else order[:size])
    found = rows.at(places)
    assert isinstance(found, np.ndarray)
    assert found.dtype == rows.dtype == np.float32
    np.testing.assert_array_equal(found, VALUES[places].astype("float32"))


def test_what_is_known_of_a_source(rows: SampleRows) -> None:
    """Its length and what a sample takes, without reading it."""
    assert (rows.count, rows.sample_shape, rows.sample_bytes) == (40, (3,), 12)


@pytest.mark.parametrize("kind", ["uint8", "int64", "bool"])
def test_whole_numbers_keep_their_type(kind: str) -> None:
    """Images stay bytes until the model makes floats of them."""
    assert SampleRows(np.ones((2, 2), kind), "float32").at(np.array([0])).dtype == kind


def test_a_series_is_one_column() -> None:
    """Labels are often a column of a frame."""
    found = SampleRows(pd.Series([1, 2, 3], index=[7, 8, 9]), "float32").at(np.array([2, 0]))
    np.testing.assert_array_equal(found, [3, 1])


@pytest.mark.parametrize(
    ("data", "is_it"),
    [
        (VALUES, True),
        ([VALUES, VALUES], True),
        ({"a": VALUES}, True),
        ([1, 2, 3], True),
        (["a", "b"], True),
        (scipy.sparse.csr_matrix(VALUES), True),
        (iter([VALUES]), False),
        ((batch for batch in [VALUES]), False),
        (None, False),
        (object(), False),
    ],
)
def test_what_can_be_cut(data: Any, is_it: bool) -> None:
    """Arrays and nests of them can; what comes in batches already is left alone."""
    assert is_rows(data) is is_it


def test_lists_of_numbers_and_of_arrays() -> None:
    """The first is one array written out, the second are several inputs."""
    assert nests.is_written_out([[1.0], [2.0]])
    assert not nests.is_written_out([VALUES])
    assert not nests.is_written_out([])


def host_rows(x: Any, y: Any = None, **options: Any) -> Any:
    """The data of a call."""
    return host_data(x, y, floatx="float32", batch_size=4, **options)


def rows_of(source: Any) -> SampleRows:
    """The rows of one source."""
    return SampleRows(source, "float32")


def test_what_is_refused() -> None:
    """By name, before anything is made of it, instead of TensorFlow's error at the first batch."""
    mixed = pd.DataFrame({"age": [31, 47], "name": ["Ann", "Bo"]})
    category = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Categorical(["x", "y"])})
    select = "select_dtypes"
    calls: list[tuple[Callable[[], Any], str, str]] = [
        # What is called, and words of the error and of its hint.
        (lambda: rows_of(np.float32(3)), "no samples", ""),
        (lambda: rows_of(mixed), "non-numeric columns: 'name' (", select),
        (lambda: rows_of(category), "'b' (category)", select),
        (lambda: rows_of(np.array([np.ones(2), np.ones(3)], dtype=object)), "a ndarray", select),
        (lambda: rows_of(np.array(["a", None], dtype=object)), "None, a NoneType", select),
        (lambda: host_rows(VALUES, VALUES[:7]), "x 40, y 7", ""),
        (lambda: host_rows([VALUES, VALUES[:3]], VALUES), "x 40, x 3, y 40", ""),
        (lambda: host_rows(VALUES[:0]), "no samples", ""),
        (lambda: host_rows(VALUES, np.float32(1)), "no samples", ""),
        (lambda: host_rows(VALUES, section=(0.0, 0.001)), "samples are left", ""),
    ]
    for number, (call, words, hint) in enumerate(calls):
        with pytest.raises(UsageError) as caught:
            call()
        assert words in str(caught.value), number
        assert hint in (caught.value.hint or ""), number
        assert caught.value.hint, number


def test_texts_are_taken() -> None:
    """NumPy and pandas hold them as objects."""
    texts = pd.Series(["a", "bc", "d"], dtype=object)
    assert SampleRows(texts, "float32").at(np.array([1, 2])).tolist() == ["bc", "d"]


def test_batch_sizes() -> None:
    """Any whole number, NumPy's too; others are refused with the value and the rule."""
    for size, checked in ((None, None), ("auto", None), (np.int64(7), 7)):
        assert checked_batch_size(size) == checked
    wrong: list[Any] = [0, -1, 1.5, True, "large", [32]]
    for size in wrong:
        with pytest.raises(UsageError, match="an integer") as caught:
            checked_batch_size(size)
        assert "auto" in str(caught.value.hint), size


@pytest.mark.parametrize("kind", SOURCES)
def test_only_arrays_in_memory_may_become_tensors(kind: str, tmp_path: Path) -> None:
    """What lies on a disk, or is written out sparsely, is never copied as a whole."""
    rows = SampleRows(SOURCES[kind](tmp_path), "float32")
    assert rows.is_array_of_numbers == (kind in {"array", "transposed", "frame", "list"})
    assert not SampleRows(np.array(["a", "b"]), "float32").is_array_of_numbers
    assert np.array_equal(rows.all(), VALUES.astype("float32"))
