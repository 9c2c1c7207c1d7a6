"""What /proc shows of other processes."""

from __future__ import annotations

import pytest

from gpuconf.basics.processes import program_of


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/usr/bin/python3.11", "-u", "-W", "error", "/home/a/train.py", "--lr", "1"], "train.py"),
        (["python", "-m", "package.train", "x.py"], "package.train"),
        (["python3", "-c", "import tensorflow"], "python3"),
        (["python3"], "python3"),
        (["/opt/bin/trainer", "run.py"], "trainer"),
        (["python", "a\x1b[2J.py"], r"a\x1b[2J.py"),
        ([""], ""),
        (["python", "-P", "-m", "gpuconf.isolation.child", "12", "4", "train.py"], "train.py"),
    ],
)
def test_what_people_call_a_process(words: list[str], name: str) -> None:
    """The script that a Python runs; for any other program its own name."""
    assert program_of(words) == name
