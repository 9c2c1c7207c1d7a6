"""What is in memory by layer and over time: that it adds up, and what is whose."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.account import layer_rows, timeline
from gpuconf.commands.estimate.memory_estimate import LayerRow
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    DATA,
    GRADIENT,
    OTHER_STATE,
    TEMPORARY,
    WORKSPACE,
    Step,
    Variable,
)
from tests.commands.estimate.hand_made_steps import (
    at_batch,
    growing_pieces,
    piece,
    ran,
    state,
    step,
    weight,
)


def rows_of(made: Step) -> dict[str | None, LayerRow]:
    """The rows by layer, of which no layer has two."""
    ready = ran(made)
    rows = layer_rows(ready, ready.memory)
    found = {row.layer: row for row in rows}
    assert len(found) == len(rows)
    return found


@given(
    growing_pieces(),
    st.integers(1, 64),
    st.lists(st.integers(0, 64 * MIB), max_size=4),
    st.integers(0, 512 * MIB),
)
def test_the_rows_add_up_to_the_peak(
    growing: list[Any], batch_size: int, weights: list[int], built_bytes: int
) -> None:
    """To the byte, whether the step takes the most or the making of the weights.

    The layers come first, the largest before the others, and the row of the rest is the last.
    """
    made = at_batch(growing, batch_size)
    variables = [weight(size, f"kernel{at}", f"layer{at}") for at, size in enumerate(weights)]
    made = ran(made._replace(variables=tuple(variables)), built_bytes=built_bytes)
    memory = made.memory
    rows = layer_rows(made, memory)
    assert sum(row.total_bytes for row in rows) == memory.peak_bytes
    assert all(size >= 0 for row in rows for size in row[2:])
    assert [row.layer for row in rows if row.layer is None] == [None]
    assert rows[-1].layer is None
    totals = [row.total_bytes for row in rows[:-1]]
    assert totals == sorted(totals, reverse=True)


@pytest.mark.parametrize(
    ("kind", "layer", "column"),
    [
        (ACTIVATION, "layer0", "activations_bytes"),
        (GRADIENT, "layer0", "gradients_bytes"),
        (TEMPORARY, "layer0", "temporaries_bytes"),
        (DATA, None, "other_bytes"),
        (WORKSPACE, "layer0", "other_bytes"),
    ],
)
def test_what_is_whose(kind: str, layer: str | None, column: str) -> None:
    """Each kind has its column; only data belong to no layer."""
    rows = rows_of(step([piece(8 * MIB, 0, 1, kind)], count=2))
    assert getattr(rows[layer], column) == 8 * MIB
    assert sum(row.total_bytes for row in rows.values()) == 8 * MIB


def test_what_was_made_by_one_layer_is_not_that_of_where_the_peak_is() -> None:
    """A result belongs to the layer of the operation that made it, as long as it is there."""
    pieces = [piece(MIB, 0, 3), piece(2 * MIB, 1, 3), piece(MIB, 2, 2), piece(4 * MIB, 3, 3)]
    rows = rows_of(step(pieces))
    assert rows["layer0"].activations_bytes == MIB
    assert rows["layer1"].activations_bytes == 6 * MIB


def test_variables_are_with_their_layers() -> None:
    """Weights, state and other variables; those of no layer are in the row of the rest."""
    variables = [
        weight(4 * MIB),
        weight(MIB, "bias"),
        state(8 * MIB),
        Variable("seed", 1000, OTHER_STATE, "layer0"),
        Variable("total", 500, OTHER_STATE),
        Variable("iteration", 8, "optimizer state"),
    ]
    made = step([piece(64 * MIB, 0, 0)], variables=variables)
    rows = rows_of(made._replace(layers={"layer0": "Dense"}))
    row = rows["layer0"]
    assert row == LayerRow("layer0", "Dense", 5 * MIB, 0, 8 * MIB, 64 * MIB, other_bytes=1000)
    assert rows[None] == LayerRow(None, "", optimizer_state_bytes=8, other_bytes=500)


@given(growing_pieces(), st.integers(1, 64), st.integers(0, MIB))
def test_the_timeline_adds_up(growing: list[Any], batch_size: int, rounding: int) -> None:
    """The kinds of each moment, rounding included, are what is in use then."""
    made = at_batch(growing, batch_size)._replace(variables=(weight(1000), state(2000)))
    memory = ran(made).memory
    in_use = tuple(size + rounding for size in memory.in_use_bytes)
    moments = timeline(made, memory._replace(in_use_bytes=in_use))
    assert tuple(moment.total_bytes for moment in moments) == in_use
    assert {moment.bytes_by_kind["rounding"] for moment in moments} == {rounding}
    assert [moment.operation for moment in moments] == [each.name for each in made.operations]
