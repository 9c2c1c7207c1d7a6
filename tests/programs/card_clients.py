"""What the tests of the simulated GPU share: the issue's GPU, and how programs are run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from gpuconf.basics.units import MIB
from gpuconf.simcard import CardSpec
from tests.programs.processes import Program

CLIENT = Path(__file__).parent / "cuda_client.py"
# The GPU: 11264 MiB, of which the desktop holds 1945.
STORY = CardSpec(total_bytes=11264 * MIB, used_bytes=1945 * MIB)
# Another interpreter to take TensorFlow from, so that one test run can cover an old version
# whose environment has no pytest.
PYTHON_VARIABLE = "GPUCONF_TEST_TENSORFLOW_PYTHON"

RunClient = Callable[..., "subprocess.CompletedProcess[str]"]
StartClient = Callable[..., Program]


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 60) -> None:
    """Wait for what another process does; fail if it does not come."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
