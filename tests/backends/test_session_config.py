"""The plan holds a ConfigProto: a table over TensorFlow's real protos, in one process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.programs import warm
from tests.programs.processes import run

TABLE = Path(__file__).with_name("session_config_table.py")


@pytest.mark.slow
def test_every_row_of_the_table(tmp_path: Path) -> None:
    """Each script's ConfigProto comes out with no GPU over its limit, and smaller wishes kept."""
    done = run([sys.executable, str(TABLE)], tmp_path, environ={warm.VARIABLE: "1"}, timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    held = [line for line in done.stdout.splitlines() if line.startswith("holds: ")]
    # The names, so that a table cut short or a loop that is left early cannot pass.
    assert len(set(held)) == len(held) >= 15
    assert held[-1] == "holds: a plan that hides the GPUs"
