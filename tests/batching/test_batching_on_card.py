"""What runs out of memory in one batch gives Keras's numbers in smaller ones.

The allocator that refuses is TensorFlow's own: a simulated GPU's, and the CPU's below a limit.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpuconf.simcard import CardSpec, bridge_for_command, simulated_card, xla_for_command
from gpuconf.units import GIB, MIB
from tests.programs.processes import reported, run

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-W", "error", str(Path(__file__).with_name("batching_on_card.py"))]
ON_CARD = ("10000", "6000")  # samples of a training, and of a batch
ON_CPU = ("2600", "2200")
CPU = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"}
LIMITED = {**CPU, "TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "300"}

Outcome = tuple[dict[str, Any], str]  # what the program reported, and its stderr


def run_on_card(total_bytes: int, folder: Path, *words: str, has_xla: bool = True) -> Outcome:
    """The outcome of the program with these arguments on a card of this size."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    with simulated_card(CardSpec(total_bytes=total_bytes)) as card:
        bridge = bridge_for_command([sys.executable])
        xla = xla_for_command([sys.executable]) if has_xla else None
        variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "XDG_CACHE_HOME": cache}
        values, log = run_program(
            card.environment(variables, bridge=bridge, xla=xla), folder, *words
        )
    assert values["gpus"] == 1, "no simulated GPU"
    return values, log


def run_program(environ: dict[str, str], folder: Path, *words: str) -> Outcome:
    """The outcome of the program with these arguments and variables."""
    done = run([*PROGRAM, *words], folder, environ=environ, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return reported(done.stdout), done.stderr


def check_numbers(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Metrics, outputs and losses are those of one pass, which Keras has no memory for."""
    assert ours["is refused"]
    for name, tolerance in (("whole", 1e-6), ("partial", 1e-6), ("sgd", 1e-5), ("adam", 1e-5)):
        assert ours[name] == pytest.approx(theirs[name], abs=tolerance), name
    assert ours["outputs"] == pytest.approx(theirs["outputs"], rel=1e-6)


def test_as_on_a_card_that_is_large_enough(libraries: Path, tmp_path: Path) -> None:  # noqa: ARG001
    """Out of memory once a call, and the same numbers as Keras on a large card.

    Keras would compile these models, but our steps run without XLA, where it is there.  Keras's own
    run op by op on a card without it, because XLA rounds otherwise.
    """
    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(
                run_on_card, 12 * GIB, tmp_path, "keras", *ON_CARD, "evaluate", "fit", has_xla=False
            ),
            pool.submit(run_on_card, 2520 * MIB, tmp_path, "gpuconf", *ON_CARD, "evaluate"),
            pool.submit(run_on_card, 2520 * MIB, tmp_path, "gpuconf", *ON_CARD, "fit"),
        ]
        (theirs, _), (evaluated, log), (fitted, more) = (each.result() for each in running)
    ours = {**evaluated, **fitted}
    assert ours["jit_compile"] == theirs["jit_compile"] is True
    check_numbers(ours, theirs)
    assert ours["bits"] == theirs["bits"]
    for what, calls in (("evaluate", 1), ("predict", 1), ("fit", 2)):
        assert (log + more).count(f"gpuconf: {what}: OOM when allocating tensor") == calls, log


@pytest.mark.nightly
def test_below_a_limit_of_the_cpu(tmp_path: Path) -> None:
    """The same where TensorFlow computes on the CPU, whose allocator stands for the card's."""
    theirs, _ = run_program(CPU, tmp_path, "keras", *ON_CPU, "evaluate", "fit")
    ours, log = run_program(LIMITED, tmp_path, "gpuconf", *ON_CPU, "evaluate", "fit")
    check_numbers(ours, theirs)
    for what in ("evaluate", "fit"):
        assert f"gpuconf: {what}: " in log
