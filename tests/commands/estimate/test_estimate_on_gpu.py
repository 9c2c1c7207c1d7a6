"""The comparison of estimates with a real GPU, where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpuconf.machine.cards.nvml import read_inventory


@pytest.mark.skipif(bool(read_inventory(processes=False).gpus), reason="this machine has a GPU")
def test_without_a_gpu_nothing_is_measured() -> None:
    """It says so, and how to try it; no figure of another device passes for the GPU's."""
    command = [sys.executable, "-m", "benchmarks.estimate_on_gpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "no NVIDIA GPU was found on this machine",
        "hint: python -m benchmarks.estimate_on_gpu --card simulated",
    ]
    assert not done.stdout
