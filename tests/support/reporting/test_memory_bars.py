"""Bars of memory: every column of them is used, no part of a GPU that matters is invisible."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuconf.basics.units import GIB, MIB
from gpuconf.support.reporting.memory_bars import GLYPHS, BarLayout, BarRow, bar_lines

PARTS = ("others", "yours", "unused", "free")
sizes = st.tuples(*[st.integers(0, 80 * GIB)] * 4)


def bar_of(parts_bytes: tuple[int, ...], layout: BarLayout) -> str:
    """The row's bar."""
    head, *lines = bar_lines([BarRow("0", "card", parts_bytes)], PARTS, PARTS, layout)
    assert head.style == "bold"
    drawn = (sign for line in lines[:-1] for sign in line.text if sign in layout.glyphs)
    return "".join(drawn)


@given(sizes, st.integers(60, 200))
def test_a_part_of_a_hundredth_is_seen(parts_bytes: tuple[int, ...], columns: int) -> None:
    """And all lines fit; the parts stand in their order."""
    layout = BarLayout(columns)
    lines = list(bar_lines([BarRow("0", "card", parts_bytes)], PARTS, PARTS, layout))
    assert all(len(line.text) <= columns for line in lines if line.hang is None)
    bar = bar_of(parts_bytes, layout)
    assert bar == "".join(sorted(bar, key=GLYPHS.index))
    for glyph, size in zip(GLYPHS, parts_bytes, strict=True):
        if size * 100 >= max(sum(parts_bytes), 1):
            assert glyph in bar


def test_figures_add_up_and_below_stands_what_is_to_be_said() -> None:
    """In whole MiB; a GPU whose memory is unknown has no bar."""
    parts = (MIB // 2, MIB // 2, 3 * MIB, 4 * MIB)
    rows = [BarRow("0", "card", parts, ("drives the display",)), BarRow("1", "other", None)]
    head, first, remark, second, legend = bar_lines(rows, PARTS, PARTS, BarLayout(ascii=True))
    assert head.text.split()[-5:] == ["TOTAL", "OTHERS", "YOURS", "UNUSED", "FREE"]
    assert first.text.split()[-5:] == ["8", "0", "1", "3", "4"]
    assert remark.text == "     drives the display"
    assert second.text == "1    other"
    assert legend.text == "     # others  + yours  = unused  . free"
    assert list(bar_lines([], PARTS, PARTS, BarLayout())) == []
