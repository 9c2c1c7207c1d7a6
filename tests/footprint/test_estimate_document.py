"""The JSON document: it is what configs/estimate.schema.json says, for every estimate."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.footprint.budget import Budget
from gpuconf.footprint.document import document_of
from gpuconf.footprint.memory_estimate import GPU, SIMULATED_CARD, TRACED, MemoryEstimate
from gpuconf.footprint.step import BACKWARD, FORWARD, UPDATE, WHOLE
from gpuconf.hardware import Gpu
from gpuconf.hardware.reserve import CONTEXT_BYTES
from gpuconf.json_values import plain
from gpuconf.reporting.thinning import thinned
from gpuconf.units import MIB
from tests.cli.commands import schema
from tests.footprint.estimates import BARE, FITS, HOPELESS, INFERENCE, TOO_LARGE, estimate, moment

SCHEMA = schema("estimate")
CASES: tuple[dict[str, Any], ...] = (
    {},
    FITS,
    TOO_LARGE,
    HOPELESS,
    INFERENCE,
    BARE,
    {"tier": GPU, "peak_bytes": 1000 * MIB},
)


def written(made: MemoryEstimate, budget: Budget | None = None) -> dict[str, Any]:
    """The document as a program reads it."""
    told = plain(document_of(made, budget, target="a.keras", plot=None))
    document: dict[str, Any] = json.loads(
        json.dumps({"schema_version": 1, **told}, allow_nan=False)
    )
    return document


def test_the_schema_knows_every_tier_and_part() -> None:
    """One that is added must be added to it too."""
    definitions = SCHEMA["definitions"]
    tiers = definitions["estimate_document"]["properties"]["tier"]["enum"]
    assert tiers == [TRACED, SIMULATED_CARD, GPU]
    for name in ("peak_document", "phase", "placed_moment"):
        assert definitions[name]["properties"]["part"]["enum"] == [FORWARD, BACKWARD, UPDATE, WHOLE]


@pytest.mark.parametrize("changes", CASES)
def test_every_estimate_gives_a_valid_document(changes: dict[str, Any]) -> None:
    """With a GPU and without one; what is not known is null, not 0."""
    made = estimate(**changes)
    for budget in (None, Budget("--limit", ("a = b",), Gpu(0)), Budget()):
        document = written(made, budget)
        jsonschema.validate(document, SCHEMA)
        assert document["card"]["context_bytes"] == CONTEXT_BYTES
    if made.limit_bytes is None:
        assert document["largest_batch"] is document["fits"] is document["limit_bytes"] is None
    else:
        assert document["fits"] is (made.batch_size <= (made.largest_batch or 0))
    assert sum(document["peak"]["bytes_by_kind"].values()) == document["peak_bytes"]


@pytest.mark.parametrize(
    "spoiled",
    [{"new": 1}, {"peak_bytes": "1"}, {"tier": "guessed"}, {"largest_batch": -1}, {"layers": None}],
)
def test_a_field_that_is_not_described_is_found(spoiled: dict[str, Any]) -> None:
    """The check above can fail."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written(estimate()), **spoiled}, SCHEMA)


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
    many = tuple(moment(FORWARD, None, data=(n * 7919) % 5000) for n in range(5000))
    told = written(estimate(timeline=many))["timeline"]
    assert len(told) <= 100
    positions = [each["position"] for each in told]
    assert positions == sorted(positions)
    highest = max(many, key=lambda each: each.total_bytes).total_bytes
    assert max(each["total_bytes"] for each in told) == highest


@given(
    values=st.lists(st.integers(0, 50), max_size=200),
    most=st.integers(3, 60),
)
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
