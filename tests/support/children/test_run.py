"""A child with a record: what it writes, how it ends, and what cannot be started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gpuconf.errors import BackendError, UsageError
from gpuconf.support.children.run import run_recorded
from gpuconf.support.children.starting import failed_start, find_command
from tests.programs.processes import run_python

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


def test_a_signal_ends_the_block_at_once(tmp_path: Path) -> None:
    """Nothing behind it runs but what cleans up; the exit code is a shell's."""
    program = """
        import signal
        from gpuconf.support.children.signals import ended_in_order
        try:
            with ended_in_order():
                try:
                    signal.raise_signal(signal.SIGTERM)
                    print("went on")
                finally:
                    print("cleaned up")
        except SystemExit as end:
            print(end.code)
    """
    assert run_python(program, tmp_path) == "cleaned up\n143\n"


@pytest.mark.parametrize(
    ("error", "says", "exit_code"),
    [
        (FileNotFoundError(2, "No such file"), "'train': it was not found", 127),
        (PermissionError(13, "Permission denied"), "'train': it may not be executed", 126),
        (OSError(8, "Exec format error"), "'train': Exec format error", 126),
    ],
)
def test_why_the_kernel_did_not_start_it(error: OSError, says: str, exit_code: int) -> None:
    """In words, and with a shell's exit code."""
    made = failed_start("train", error)
    assert made.message == f"cannot start {says}"
    assert made.exit_code == exit_code


def test_what_could_not_be_started(tmp_path: Path) -> None:
    """Found before anything is done: each with its reason, and a hint that helps."""
    (tmp_path / "train.py").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    script = str(tmp_path / "train.py")
    for name, says, hint, exit_code in (
        ("no-such", "it was not found", "check the command after --", 127),
        ("A=1", "it is a variable, not a command", "put A=1 before the whole command line", 2),
        (str(tmp_path / "folder"), "it is a folder", "check the command after --", 126),
        (script, "it may not be executed", f"start it with its Python: -- python {script}", 126),
        ("train.py", "it may not be executed", "check the command after --", 126),
    ):
        with pytest.raises(UsageError, match=says) as caught:
            find_command(name, {"PATH": str(tmp_path)})
        assert caught.value.exit_code == exit_code, name
        assert (caught.value.hint or "").startswith(hint), name
    assert find_command(sys.executable, {}) == sys.executable
