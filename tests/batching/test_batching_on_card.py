"""The two classic failures on a simulated card: TensorFlow's own GPU allocator says no."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card, xla_for_command
from gpuconf.units import GIB, MIB
from tests.programs.processes import run

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("batching_on_card.py")


def told_by(
    total_bytes: int, folder: Path, *words: str, has_xla: bool = True
) -> tuple[dict[str, Any], str]:
    """What the program told of these words on a card of this size, and what stood on stderr."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    command = [sys.executable, str(PROGRAM), *words]
    with simulated_card(CardSpec(total_bytes=total_bytes)) as card:
        bridge = bridge_for_command([sys.executable])
        xla = xla_for_command([sys.executable]) if has_xla else None
        variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "XDG_CACHE_HOME": cache}
        environ = card.environment(variables, bridge=bridge, xla=xla)
        done = run(command, folder, environ=environ, timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    found: dict[str, Any] = json.loads(line.removeprefix("TOLD "))
    return found, done.stderr


def test_as_on_a_card_that_is_large_enough(libraries: Path, tmp_path: Path) -> None:  # noqa: ARG001
    """Out of memory once a call, and metrics, predictions and losses as Keras's with room.

    Keras would compile these models, but our steps run without XLA, where it is there.  Keras's own
    run op by op on a card without it, because XLA rounds otherwise.
    """
    # At once, because TensorFlow waits 10 s before it is out of memory.
    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(told_by, 12 * GIB, tmp_path, "keras", "evaluate", "fit", has_xla=False),
            pool.submit(told_by, 2520 * MIB, tmp_path, "gpuconf", "evaluate"),
            pool.submit(told_by, 2520 * MIB, tmp_path, "gpuconf", "fit"),
        ]
        (keras, _), (ours, said), (fitted, more) = (each.result() for each in running)
    ours |= fitted
    said += more
    assert ours["jit_compile"] == keras["jit_compile"] is True
    assert ours["evaluate"] == pytest.approx(keras["evaluate"], abs=1e-6)
    assert ours["predict"] == keras["predict"]
    for optimizer in ("sgd", "adam"):
        assert ours[optimizer] == pytest.approx(keras[optimizer], abs=1e-5)
    for what, calls in (("evaluate", 1), ("predict", 1), ("fit", 2)):
        assert said.count(f"gpuconf: {what}: OOM when allocating tensor") == calls, said
