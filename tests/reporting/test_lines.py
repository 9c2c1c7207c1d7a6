"""Lines for a terminal: broken between words, but what is pasted stays in one piece."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.reporting.lines import fitted

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
