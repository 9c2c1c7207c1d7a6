"""A child with a record: what it writes, and how it ends."""

from __future__ import annotations

import os
import sys

import pytest

from gpuconf.errors import BackendError
from gpuconf.support.children.run import run_recorded

WRITES = """
import os, sys, time
record = int(sys.argv[-1])
os.write(record, b"first")
print("to stdout", flush=True)
print("to stderr", file=sys.stderr, flush=True)
"""


def code(program: str) -> list[str]:
    return [sys.executable, "-c", WRITES + program]


def test_record_output_and_exit_code() -> None:
    """Each has its own place, and the record is shown while the child runs, and at its end."""
    seen: list[str] = []

    def watch(record: str) -> float:
        seen.append(record)
        return 60

    ended = run_recorded(code("os.write(record, b' last'); sys.exit(7)"), os.environ, watch=watch)
    assert ended == ("first last", "to stdout\nto stderr\n", 7, 60, False)
    assert seen[-1] == "first last"


def test_its_time_is_up() -> None:
    """The limit is the one that follows from the record; the child is ended."""
    ended = run_recorded(
        code("time.sleep(600)"), os.environ, watch=lambda record: 0.01 if record else 60
    )
    assert (ended.record, ended.code, ended.limit_s, ended.is_stuck) == ("first", None, 0.01, False)


def test_the_middle_of_a_long_text_is_left_out() -> None:
    """The beginning and the end tell what happened."""
    text = "print('B' + 3_000_000 * 'x' + 'E', flush=True)"
    output = run_recorded(code(text), os.environ, watch=lambda _: 60).output
    assert output.startswith("to stdout\nto stderr\nBx")
    assert output.endswith("xE\n")
    assert output.count("\n[...]\n") == 1
    assert len(output) == 2**16 + 2**20 + len("\n[...]\n")


def test_a_program_that_is_not_there() -> None:
    """It is named, with the system's reason."""
    with pytest.raises(BackendError, match=r"cannot start /no/python: No such file") as caught:
        run_recorded(["/no/python"], os.environ, watch=lambda _: 60)
    assert caught.value.hint == "/no/python --version"
