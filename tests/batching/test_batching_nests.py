"""Cutting nests of arrays, gathering outputs, and the size of parts."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpuconf.batching import nests
from gpuconf.batching.gathering import Gathered, joined
from gpuconf.batching.part_weights import reductions
from gpuconf.batching.stepping import even
from gpuconf.errors import UsageError


class Pair(NamedTuple):
    """A nest of a class of its own."""

    one: Any
    two: Any


LEAF = np.arange(12).reshape(6, 2)
NESTS: dict[str, Any] = {
    "leaf": LEAF,
    "tuple": (LEAF, None, LEAF + 1),
    "list in dict": {"b": [LEAF, LEAF], "a": LEAF},
    "ordered": OrderedDict(z=LEAF, a=(LEAF,)),
    "named": Pair(LEAF, {"x": None, "y": LEAF}),
}


@pytest.mark.parametrize("nest", NESTS.values(), ids=NESTS)
def test_a_part_has_the_form_of_the_whole(nest: Any) -> None:
    """Rows are cut of each leaf; classes, keys, their order and None stay."""
    part = nests.part(nest, 2, 5)
    assert type(part) is type(nest)
    assert nests.count(part) == 3
    refilled = nests.refilled(nest, [leaf[2:5] for leaf in nests.leaves(nest)])
    assert str(part) == str(refilled)
    assert nests.part(nest, 0, 6) is nest


def test_a_scalar_belongs_to_every_part() -> None:
    """What has no rows is handed on as it is."""
    rows, scalar = nests.part((LEAF, np.float32(3)), 0, 2)
    assert len(rows) == 2
    assert scalar == 3


@given(some.integers(1, 5000), some.integers(1, 5000))
def test_parts_are_even_and_cover_all(samples: int, most: int) -> None:
    """No part is above the most; the last is no crumb unless rows come in blocks of 32."""
    size = even(samples, most)
    assert 1 <= size <= min(most, max(samples, 1)) or size == samples <= most
    parts = [min(size, samples - start) for start in range(0, samples, size)]
    assert sum(parts) == samples
    if samples > most >= 32:
        assert size % 32 == 0


@given(some.lists(some.integers(1, 9), min_size=1, max_size=6), some.booleans())
def test_outputs_are_gathered_in_order(sizes: list[int], is_known: bool) -> None:
    """Rows of all batches, whether or not their number was known, in the model's own nest."""
    total = sum(sizes)
    rows = np.arange(total * 3, dtype="float32").reshape(total, 3)
    gathered = Gathered(samples=total if is_known else None)
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


def test_outputs_go_into_a_file(tmp_path: Path) -> None:
    """``out`` is written and given back; the file is complete without being closed."""
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", "float32", (4, 2))
    gathered = Gathered(samples=4, out=out)
    gathered.add(np.ones((3, 2), "float32"), 3)
    gathered.add(np.zeros((1, 2), "float32"), 1)
    assert gathered.result() is out
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy").sum(axis=1), [2, 2, 2, 0])


@pytest.mark.parametrize("shape", [(4, 3), (5, 2), (4,), (4, 2, 1)])
def test_an_out_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    """With a hint that makes the right one, and nothing is written."""
    out = np.zeros(shape, "float32")
    gathered = Gathered(samples=4, out=out)
    with pytest.raises(UsageError, match="out has shape") as caught:
        gathered.add(np.ones((4, 2), "float32"), 4)
    assert "(4, 2)" in str(caught.value.hint)
    assert not out.any()


def test_more_outputs_than_room_are_refused() -> None:
    """A dataset that is longer than ``out``: an error, not a file that ends early."""
    out = np.zeros((4, 2))
    gathered = Gathered(samples=None, out=out)
    gathered.add(np.ones((3, 2)), 3)
    with pytest.raises(UsageError, match="room for 4"):
        gathered.add(np.ones((3, 2)), 3)


def test_no_outputs_at_all() -> None:
    """Nothing was computed: None."""
    assert Gathered(samples=None).result() is None


def test_parts_of_a_batch_are_joined() -> None:
    """For callbacks, which get the outputs of the batch."""
    np.testing.assert_array_equal(joined([(LEAF[:2],), (LEAF[2:],)])[0], LEAF)


class _Loss:
    def __init__(self, reduction: Any) -> None:
        self.reduction = reduction


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (None, set()),
        ("mse", {"sum_over_batch_size"}),
        (lambda _true, _predicted: 0.0, {"sum_over_batch_size"}),
        (_Loss("sum"), {"sum"}),
        (_Loss(None), {"none"}),
        (["mse", _Loss("sum")], {"sum_over_batch_size", "sum"}),
        ({"a": _Loss("sum"), "b": None, "c": [_Loss("sum")]}, {"sum"}),
    ],
)
def test_reductions_of_what_compile_was_given(loss: Any, found: set[str]) -> None:
    """Each loss of a nest tells its own; functions and names are means."""
    assert reductions(loss) == found
