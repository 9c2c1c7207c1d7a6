"""A log of 200 MB is read in little memory, and its end is not lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.programs.processes import run, run_python

MIB = 1 << 20
MOST_BYTES = 200 * MIB

COUNT_SHOWN = """
import json, random, sys
from benchmarks.long_logs import KINDS, log_of
from gpuconf.support.failures.log.stream import LogReader

class Counting:
    parts = ("error",)
    count, wants, longest = 0, 0, 0
    def __init__(self, phrases):
        self.phrases = phrases
    def see(self, line):
        self.count += 1
        self.longest = max(self.longest, len(line.text))
    def keep(self, number, line):
        pass
    def follow(self, line):
        pass

random.seed(0)
shown = {}
for kind in KINDS:
    watcher, keeper = Counting(("of size", "loss", "memory", "epoch", "line")), Counting(())
    LogReader([watcher], [watcher], keeper).read(log_of(kind, 20_000_000))
    shown[kind] = watcher.count, watcher.longest
print(json.dumps(shown))
"""


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
def test_lines_shown_are_few(tmp_path: Path) -> None:
    """Of any log, those who watch get at most some thirty thousand lines, of at most 16 KiB."""
    shown = json.loads(run_python(COUNT_SHOWN, tmp_path, timeout_s=300))
    assert len(shown) == 3
    assert all(count <= 31_000 and longest <= 16 * 1024 for count, longest in shown.values()), shown
    assert any(count > 100 for count, _ in shown.values())


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
