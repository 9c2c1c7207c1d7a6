"""Names of operations to layers and phases, and rows that add up."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.commands.rehearse.breakdown import ProgramNames, is_kernels_own, place_of, rows_of
from gpuconf.commands.rehearse.trace import TracedAllocation, Usage

NAMES = ProgramNames(
    frozenset({"c1", "c2", "d_2"}), frozenset({"adam"}), (400, 16), (400, 400, 16, 16)
)


PLACES = yaml.safe_load(Path(__file__).with_name("places.yaml").read_text(encoding="utf-8"))


def test_the_place_of_an_operation() -> None:
    """Phase, layer and kind are read from the name TensorFlow gives."""
    for op, place in PLACES.items():
        assert place_of(op, NAMES) == tuple(place), op


_ALLOCATIONS = st.builds(
    TracedAllocation,
    time_ns=st.integers(0, 100),
    size_bytes=st.integers(1, 10**9),
    asked_bytes=st.sampled_from([16, 400, 5000]),
    op=st.sampled_from([None, "c1/Relu", "gradient_tape/c1/Mul", "adam/Sqrt", "Fill", "m/c2/Add"]),
    shape=st.none(),
    is_workspace=st.booleans(),
)


@given(st.lists(_ALLOCATIONS, max_size=40), st.none() | st.integers(0, 100))
def test_the_rows_add_up(live: list[TracedAllocation], first_step_ns: int | None) -> None:
    """Every byte at the peak is in one row, the largest row first."""
    total = sum(each.size_bytes for each in live)
    usage = Usage(0, 10**12, total, 50, (), tuple(live))
    rows = rows_of(usage, NAMES, first_step_ns=first_step_ns)
    assert sum(row.size_bytes for row in rows) == total
    assert sum(row.pieces for row in rows) == len(live)
    assert [row.size_bytes for row in rows] == sorted((r.size_bytes for r in rows), reverse=True)


def test_variables_are_known_by_their_size() -> None:
    """As many as there are of that size: weights first, which are made first, then their slots."""
    live = tuple(
        TracedAllocation(time, 512, 400, "Fill", None, is_workspace=False) for time in range(4)
    )
    rows = rows_of(Usage(0, 10**6, 2048, 9, (), live), NAMES, first_step_ns=2)
    found = {row.what: row.pieces for row in rows}
    assert found == {"weights": 1, "optimizer state": 2, "other computation": 1}


def test_scratch_memory_of_a_cpu_kernel() -> None:
    """What im2col unfolds a plot into is not a result of a convolution."""
    backward = "gradient_tape/m/c1/convolution/Conv2DBackpropFilter"
    assert is_kernels_own(backward, (2, 65536, 144))
    assert not is_kernels_own(backward, (3, 3, 16, 32))
    assert not is_kernels_own("m/c1/convolution_1/Conv2D", (8, 64, 64, 16))
    assert not is_kernels_own("m/d1/MatMul", (8, 64))
    assert not is_kernels_own(None, (8, 64))
