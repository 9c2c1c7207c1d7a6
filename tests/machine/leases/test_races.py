"""The benchmark of leases in small: races with kills, and kills at any call of the ledger."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuconf.simcard.card import PROCESSES
from tests.programs.processes import run


@pytest.mark.nightly
@pytest.mark.parametrize("processes", PROCESSES[1:])
def test_a_race_whatever_the_driver_says_of_processes(processes: str, tmp_path: Path) -> None:
    """As under WSL2, in a container and in a vGPU guest."""
    options = ["--parts", "race", "--starts", "24", "--processes", processes]
    done = run([sys.executable, "-m", "benchmarks.leases", *options], tmp_path, timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| allocations refused | 0 | 0 |" in done.stdout


@pytest.mark.slow
def test_a_small_race(tmp_path: Path) -> None:
    """Nothing is refused inside a lease, promised twice, or left; without leases something is."""
    options = ["--parts", "race", "without", "cycles", "--starts", "24", "--cycles", "300"]
    done = run([sys.executable, "-m", "benchmarks.leases", *options], tmp_path, timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {}
    for line in done.stdout.splitlines():
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name] = cells
    *with_leases, without = rows["allocations refused"]
    assert with_leases == ["0", "0"]
    assert int(without) > 0
    assert int(rows["killed"][0]) >= 300
    assert rows["grants whose sum exceeded the GPU"][:2] == ["0", "0"]
    assert rows["live leases left"][:2] == ["0", "0"]
