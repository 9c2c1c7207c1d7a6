"""The JSON document of an estimate: its sums; that it obeys the schema: documents/."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.json_values import plain
from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.budget import Budget
from gpuconf.commands.estimate.document import document_of
from gpuconf.commands.estimate.memory_estimate import MemoryEstimate
from gpuconf.commands.estimate.step import FORWARD, SIMULATED_CARD
from gpuconf.machine.cards import Gpu
from gpuconf.machine.cards.system_memory import CONTEXT_BYTES
from gpuconf.support.reporting.thinning import thinned
from tests.commands.estimate.estimates import (
    BARE,
    FITS,
    HOPELESS,
    INFERENCE,
    TOO_LARGE,
    estimate,
    moment,
)

CASES: tuple[dict[str, Any], ...] = (
    {},
    FITS,
    TOO_LARGE,
    HOPELESS,
    INFERENCE,
    BARE,
    {"tier": SIMULATED_CARD, "peak_bytes": 1000 * MIB},
)


def written(made: MemoryEstimate, budget: Budget | None = None) -> dict[str, Any]:
    """The document as a program reads it."""
    value = plain(document_of(made, budget, target="a.keras", plot=None))
    document: dict[str, Any] = json.loads(json.dumps(value, allow_nan=False))
    return document


@pytest.mark.parametrize("changes", CASES)
def test_the_figures_of_every_estimate(changes: dict[str, Any]) -> None:
    """With a GPU and without one; what is not known is null, not 0."""
    made = estimate(**changes)
    for budget in (None, Budget("--limit", ("a = b",), Gpu(0)), Budget()):
        document = written(made, budget)
        assert document["card"]["context_bytes"] == CONTEXT_BYTES
    if made.limit_bytes is None:
        assert document["largest_batch"] is document["fits"] is document["limit_bytes"] is None
    else:
        assert document["fits"] is (made.batch_size <= (made.largest_batch or 0))
    assert sum(document["peak"]["bytes_by_kind"].values()) == document["peak_bytes"]


def test_layers_have_their_sums() -> None:
    """Each its own, and all of them the peak."""
    document = written(estimate())
    for layer in document["layers"]:
        parts = [size for name, size in layer.items() if name.endswith("_bytes")]
        assert layer["total_bytes"] == sum(parts) - layer["total_bytes"]
    assert sum(layer["total_bytes"] for layer in document["layers"]) == document["peak_bytes"]
    assert [layer["layer"] for layer in document["layers"]].count(None) == 1


def test_a_long_timeline_is_thinned() -> None:
    """To a hundred moments, the peak and the positions of all among them."""
    many = tuple(moment(FORWARD, None, n, data=(n * 7919) % 5000) for n in range(5000))
    shown = written(estimate(timeline=many))["timeline"]
    assert len(shown) <= 100
    positions = [each["position"] for each in shown]
    assert positions == sorted(positions)
    highest = max(many, key=lambda each: each.total_bytes).total_bytes
    assert max(each["total_bytes"] for each in shown) == highest


@given(values=st.lists(st.integers(0, 50), max_size=200), most=st.integers(3, 60))
def test_thinning_loses_no_extreme(values: list[int], most: int) -> None:
    """The highest and the lowest stay, in order, and few enough; a short series stays whole."""
    places = thinned(values, most)
    assert places == sorted(set(places))
    assert len(places) <= max(most, 3)
    if len(values) <= most:
        assert places == list(range(len(values)))
    if values:
        kept = [values[place] for place in places]
        assert (max(kept), min(kept), kept[0]) == (max(values), min(values), values[0])
