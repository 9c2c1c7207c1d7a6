"""Tables of a bounded width: cut, then without what matters least, and never wider."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpuconf.support.reporting.columns import Column, column_lines

WORDS = ("train-the-large-model.py", "x")
TABLE = (
    Column("PID", ("7", "12345"), is_right=True),
    Column("PROGRAM", WORDS, shortest=10),
    Column("PROFILE", ("shared-desktop", "-"), shortest=9, rank=2),
    Column("SINCE", ("14:02", "14:03"), rank=1),
)


def texts(width: int | None) -> list[str]:
    """The lines of the table in so many columns."""
    return [line.text for line in column_lines(TABLE, width)]


def test_where_there_is_room_nothing_is_cut() -> None:
    """Figures on the right, and no blanks at the end of a line."""
    assert texts(None) == texts(200) == [
        "  PID  PROGRAM                   PROFILE         SINCE",
        "    7  train-the-large-model.py  shared-desktop  14:02",
        "12345  x                         -               14:03",
    ]  # fmt: skip


def test_the_widest_is_cut_then_the_least_is_dropped() -> None:
    """The highest rank first; what has none stays, though it runs over the edge."""
    assert texts(36)[:2] == [
        "  PID  PROGRAM     PROFILE     SINCE",
        "    7  train-the…  shared-de…  14:02",
    ]  # fmt: skip
    assert texts(34)[:2] == [
        "  PID  PROGRAM               SINCE",
        "    7  train-the-large-mod…  14:02",
    ]  # fmt: skip
    assert texts(20)[1] == "    7  train-the-la…"
    assert texts(3)[1] == "    7  train-the…"


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4), st.integers(20, 60))
def test_wide_characters_take_their_room(names: list[str], width: int) -> None:
    """A name of any script is cut to what the terminal shows of it."""
    shown = tuple(name if name.isprintable() else "?" for name in names)
    table = [Column("PROGRAM", shown, shortest=10), Column("N", ("1",) * len(names))]
    lines = column_lines(table, width)
    assert all(cell_len(line.text) <= width for line in lines)
    assert len(lines) == len(names) + 1


def test_a_column_of_nothing_is_left_out_and_rows_have_their_styles() -> None:
    """As where only sums of others are shown, which have no pid."""
    table = [Column("PID", ("", "")), Column("USER", ("anna", "ben"))]
    head, first, second = column_lines(table, None, ["dim", ""])
    assert [head.text, first.text, second.text] == ["USER", "anna", "ben"]
    assert [head.style, first.style, second.style] == ["bold", "dim", ""]
