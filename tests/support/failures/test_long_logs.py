"""A log of 200 MB is read in little memory, and its end is not lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.programs.processes import run, run_python

MIB = 1 << 20
MOST_BYTES = 200 * MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "lines of one dump, all different",
        pytest.param("progress bars, written over", marks=pytest.mark.nightly),
        pytest.param("the tests' logs, mixed", marks=pytest.mark.nightly),
    ],
)
def test_long_log_needs_little_memory(kind: str, tmp_path: Path) -> None:
    """200 MB, made on the way: under 200 MiB at the peak, and the exception at the end is seen."""
    command = [sys.executable, "-m", "benchmarks.long_logs", kind, "--megabytes", "200"]
    done = run(command, tmp_path, timeout_s=300)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert measured["peak_bytes"] < MOST_BYTES
    assert measured["cause"] != "not-a-gpu-problem"
    assert measured["lines"] > 100


@pytest.mark.slow
def test_memory_check_can_fail(tmp_path: Path) -> None:
    """The measure of the peak tells a process that held 300 MiB."""
    program = f"""
        from benchmarks.long_logs import peak_bytes
        small = peak_bytes()
        held = bytearray(b"x") * (300 << 20)
        del held
        print(small < {MOST_BYTES} < peak_bytes())
    """
    assert run_python(program, tmp_path).strip() == "True"
