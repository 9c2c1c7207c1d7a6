"""Outputs written into what the user gave, and those that are not one row a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuconf.batching.gathering import GatheredOutputs
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests

FIRST = np.arange(6.0).reshape(3, 2)


def gathered(*parts: Any, **options: Any) -> Any:
    """The outputs of some parts, each of which says how many samples it is of."""
    found = GatheredOutputs(**options)
    for outputs, samples in parts:
        found.add(outputs, samples)
    return found.result()


@given(some.lists(some.integers(1, 9), min_size=1, max_size=6), some.booleans())
def test_outputs_are_gathered_in_order(sizes: list[int], is_known: bool) -> None:
    """Rows of all batches, whether or not their number was known, in the model's own nest."""
    total = sum(sizes)
    rows = np.arange(total * 3, dtype="float32").reshape(total, 3)
    gathered = GatheredOutputs(samples=total if is_known else None)
    start = 0
    for size in sizes:
        part = rows[start : start + size]
        views = gathered.add({"p": part, "q": [part[:, 0]]}, len(part))
        np.testing.assert_array_equal(views["q"][0], part[:, 0])
        start += size
    result = gathered.result()
    np.testing.assert_array_equal(result["p"], rows)
    np.testing.assert_array_equal(result["q"][0], rows[:, 0])
    assert result["p"].dtype == rows.dtype


def test_what_does_not_fit() -> None:
    """Refused before anything is written, with the line that makes one that fits."""
    outs: list[tuple[Any, str]] = [
        *((np.zeros(shape), "out has shape") for shape in ((3, 3), (4, 2), (3,), (3, 2, 1))),
        (np.zeros((3, 2), np.int64), "cannot hold outputs of dtype float64"),
        ([np.zeros((3, 2))], "not nested in the same way"),
        ("out.npy", "out has shape"),
    ]
    for out, words in outs:
        with pytest.raises(UsageError, match=words) as caught:
            gathered((FIRST, 3), samples=3, out=out)
        assert caught.value.hint is not None, (out, words)
        if isinstance(out, np.ndarray):
            assert not out.any(), (out, words)
        if words == "out has shape":
            assert "(3, 2)" in caught.value.hint, out


def test_more_outputs_than_room_are_refused() -> None:
    """A dataset that is longer than ``out``: an error, not a file that ends early."""
    with pytest.raises(UsageError, match="room for only 4"):
        gathered((np.ones((3, 2)), 3), (np.ones((3, 2)), 3), samples=None, out=np.zeros((4, 2)))


def test_rows_that_stay_as_they_were_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A generator that ends early: the rest of ``out`` is not the model's."""
    gathered((np.ones((3, 2)), 3), samples=None, out=np.zeros((4, 2)))
    assert "out has 4 rows, of which the first 3 were written" in capsys.readouterr().err


def test_an_out_that_cannot_be_written_is_refused() -> None:
    """As a file that was opened for reading."""
    out = np.zeros((3, 2))
    out.flags.writeable = False
    with pytest.raises(UsageError, match="read-only") as caught:
        GatheredOutputs(samples=3, out=out).add(np.ones((3, 2)), 3)
    assert 'mmap_mode="r+"' in str(caught.value.hint)


def test_no_outputs_at_all() -> None:
    """Nothing was computed: None."""
    assert GatheredOutputs(samples=None).result() is None


def test_parts_of_a_batch_are_joined() -> None:
    """For callbacks, which get the outputs of the batch."""
    np.testing.assert_array_equal(nests.joined([(FIRST[:2],), (FIRST[2:],)])[0], FIRST)


def test_dicts_by_their_keys() -> None:
    """An ``out`` whose keys stand in another order than the outputs' gets each its own."""
    out = {"a": np.zeros((3, 2)), "b": np.zeros(3)}
    found = gathered(({"b": np.ones(3), "a": FIRST}, 3), samples=3, out=out)
    assert found is out
    np.testing.assert_array_equal(out["a"], FIRST)
    np.testing.assert_array_equal(out["b"], np.ones(3))


def test_rows_that_are_not_the_samples() -> None:
    """Two rows for each sample, as Keras joins them."""
    found = gathered((np.ones((6, 2)), 3), (np.zeros((4, 2)), 2), samples=5)
    assert found.shape == (10, 2)
