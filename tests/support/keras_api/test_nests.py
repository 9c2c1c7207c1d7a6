"""Cutting nests of arrays; how losses are reduced."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpuconf.batching.steps.part_losses import reductions
from gpuconf.support.keras_api import nests


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
    "with a factory": defaultdict(list, a=LEAF, b=[LEAF]),
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
