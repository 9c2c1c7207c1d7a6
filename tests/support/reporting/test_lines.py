"""Lines for a terminal: broken between words, but what is pasted stays in one piece."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.support.reporting.lines import Line, Table, broken, fitted, line_of
from gpuconf.support.reporting.text import text_of
from tests.programs.processes import run_python

COMMAND = "gpuconf rehearse --card 4GiB --used 1.2GiB --profile small-laptop -- python train.py"


def test_a_short_line_is_left_alone() -> None:
    """Nothing is rewritten that need not be, the indent least of all."""
    text = "  two  spaces\n\nand an empty line"
    assert fitted(text, 80) == text


@given(
    words=st.lists(st.text("abc", min_size=1, max_size=9), min_size=1), width=st.integers(20, 90)
)
def test_words_are_kept(words: list[str], width: int) -> None:
    """All of them, in order, and no line is longer than the terminal is wide."""
    broken = fitted(" ".join(words), width)
    assert broken.split() == words
    assert all(len(line) <= width for line in broken.splitlines())


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (f"  profile    small-laptop allows 2099 MiB, not tried: {COMMAND}", COMMAND),
        (f"no command was given to this program at all\n  hint: put it last: {COMMAND}", COMMAND),
        ("  hint: it is not here: pip install 'tensorflow[and-cuda]' into another environment, or "
         "leave it out", "pip install 'tensorflow[and-cuda]' into another environment"),
        ("the file that was named is '/a folder/with spaces in it/train.py' and it is not there",
         "'/a folder/with spaces in it/train.py'"),
    ],
)  # fmt: skip
def test_what_is_pasted_stays_whole(text: str, whole: str) -> None:
    """A command, or a name in quotes, stands on one line, however long that gets."""
    lines = fitted(text, 40).splitlines()
    assert len(lines) > 1
    assert any(whole in line for line in lines)


@given(
    words=st.lists(st.text("abc", min_size=1, max_size=9), min_size=1),
    width=st.integers(40, 90),
    hang=st.integers(0, 8),
)
def test_a_broken_line_hangs(words: list[str], width: int, hang: int) -> None:
    """All words are kept, and what is broken off is indented as the line says."""
    line = Line("-" * hang + " ".join(words), hang=hang)
    first, *others = broken([line], width)
    assert [*first.text[hang:].split(), *" ".join(each.text for each in others).split()] == words
    assert all(each.text.startswith(" " * hang) for each in others)
    assert all(len(each.text) <= width for each in (first, *others))


def test_what_is_pasted_is_not_broken() -> None:
    """Nor is anything in a file, which has no width."""
    pasted, prose = Line("word " * 40, hang=None), Line("word " * 40)
    assert list(broken([pasted], 30)) == [pasted]
    assert list(broken([prose], None)) == [prose]


def test_the_styles_of_parts_stay_with_their_parts() -> None:
    """Spans of what stays on the first line are kept, the others end there."""
    line = line_of(("FAIL   ", "red"), ("cuda.driver", "bold"), (" " + "word " * 20, ""), hang=7)
    assert line.spans == ((0, 7, "red"), (7, 18, "bold"))
    first, second, *_ = broken([line], 40)
    assert first.spans == line.spans
    assert second.spans == ()
    whole = line_of(("word " * 20, "dim"), hang=0)
    assert next(iter(broken([whole], 40))).spans == ((0, 39, "dim"),)


@pytest.mark.parametrize(
    ("cells", "are_figures"),
    [(["1", "22.5", ""], True), (["957 MiB", "6.8 KiB", "256 B"], True), (["-"], True),
     (["1", "GPU 0"], False), (["2.21.0"], True), (["(others)"], False)],
)  # fmt: skip
def test_columns_of_figures_are_known(cells: list[str], are_figures: bool) -> None:
    """Numbers and sizes, whatever the unit; one word makes it a column of words."""
    table = Table(("WHAT",), [(cell,) for cell in cells])
    assert table.is_of_figures(0) is are_figures


class _Value:
    def __str__(self) -> str:
        return text_of(self)


def test_a_values_text_is_what_is_registered() -> None:
    """The value's file knows no printer; without one there is its repr, and no recursion."""
    value = _Value()
    assert str(value) == repr(value)
    text_of.register(_Value, lambda _: "as people read it")
    assert str(value) == "as people read it"


@pytest.mark.parametrize("kind", ["estimate", "diagnosis"])
def test_values_print_without_their_command(kind: str, tmp_path: Path) -> None:
    """Whoever gets a value of ours has its printer too, and its file imports none."""
    program = {
        "estimate": "from gpuconf.commands.estimate.memory_estimate import MemoryEstimate, Peak\n"
        "value = MemoryEstimate(1, 2**30, 0, None, Peak('op', None, 'forward'), (), (), ())\n"
        "assert str(value).startswith('batch 1: 1024 MiB at the peak'), value\n",
        "diagnosis": "from gpuconf.commands.explain.diagnosis import Diagnosis\n"
        "assert 'fragmented' in str(Diagnosis('fragmentation', 'failure'))\n",
    }
    run_python(program[kind], tmp_path)
