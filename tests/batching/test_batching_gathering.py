"""Outputs written into what the user gave, and those that are not one row a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuconf.batching.gathering import Gathered
from gpuconf.errors import UsageError

FIRST = np.arange(6.0).reshape(3, 2)


def gathered(*parts: Any, **options: Any) -> Any:
    """The outputs of some parts, each of which says how many samples it is of."""
    found = Gathered(**options)
    for outputs, samples in parts:
        found.add(outputs, samples)
    return found.result()


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


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.zeros((4, 2)), "out has shape"),
        (np.zeros((3, 3)), "out has shape"),
        (np.zeros((3, 2), np.int64), "cannot hold the outputs' float64"),
        ([np.zeros((3, 2))], "not nested alike"),
        ("out.npy", "out has shape"),
    ],
    ids=["too long", "other rows", "integers", "nested", "a name"],
)
def test_what_does_not_fit(out: Any, words: str) -> None:
    """Refused before anything is written, with the line that makes one that fits."""
    with pytest.raises(UsageError, match=words) as caught:
        gathered((FIRST, 3), samples=3, out=out)
    assert caught.value.hint is not None
