"""What runs out of memory in one batch gives Keras's numbers in smaller ones.

The allocator that refuses is TensorFlow's own, on a simulated GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card, xla_for_command
from tests.programs import warm
from tests.programs.processes import clean_environment, reported, run

pytestmark = pytest.mark.slow(seconds=25)

PROGRAM = str(Path(__file__).with_name("batching_on_card.py"))


def run_on_card(
    who: str, total_bytes: int, folder: Path, *, has_xla: bool = True
) -> tuple[dict[str, Any], str]:
    """What the program reports on a GPU of this size, and its stderr."""
    command = [sys.executable, "-W", "error", PROGRAM, who]
    xla = xla_for_command(command) if has_xla else None
    variables = {**clean_environment(folder), "TF_CPP_MIN_LOG_LEVEL": "3", warm.VARIABLE: "1"}
    with simulated_card(CardSpec(total_bytes=total_bytes)) as card:
        environ = card.environment(variables, bridge=bridge_for_command(command), xla=xla)
        done = run(command, folder, environ=environ, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    values = reported(done.stdout)
    assert values["gpus"] == 1, "no simulated GPU"
    return values, done.stderr


def test_as_on_a_card_that_is_large_enough(libraries: Path, tmp_path: Path) -> None:  # noqa: ARG001
    """Out of memory once a call, and the same numbers as Keras on a large GPU.

    Keras would compile these models, but our steps run without XLA, where it is there.  Keras's own
    run op by op on a GPU without it, because XLA rounds otherwise.
    """
    theirs, _ = run_on_card("keras", 12 * GIB, tmp_path, has_xla=False)
    ours, log = run_on_card("gpuconf", 480 * MIB, tmp_path)
    assert ours["jit_compile"] == theirs["jit_compile"] is True
    assert ours["is refused"], "Keras's one pass has memory enough"
    for name, tolerance in (("whole", 1e-6), ("partial", 1e-6), ("sgd", 1e-5), ("adam", 1e-5)):
        assert ours[name] == pytest.approx(theirs[name], abs=tolerance), name
    assert ours["outputs"] == theirs["outputs"]
    for what, calls in (("evaluate", 1), ("predict", 1), ("fit", 2)):
        assert log.count(f"gpuconf: {what}: OOM when allocating tensor") == calls, log
