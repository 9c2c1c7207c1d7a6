"""Estimates against what TensorFlow's allocator counts: on the CPU, and on the simulated card."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuconf.simcard import Card, CardSpec, bridge_for_command, simulated_card
from gpuconf.units import GIB
from tests.programs.inside_tensorflow import COUNTED, PLAIN
from tests.programs.processes import run

# `stored_peaks_checks.py` has README's accuracy for the gate, without a step.
pytestmark = [pytest.mark.slow, pytest.mark.nightly]

PROGRAM = Path(__file__).with_name("measured_steps.py")
MODELS = ("convnet", "transformer", "lstm")


def told_by(cases: list[str], device: str, folder: Path, environ: dict[str, str]) -> list[Any]:
    """What the program measured and estimated, in a process of this environment."""
    command = [sys.executable, str(PROGRAM), device, *cases]
    done = run(command, folder, environ=environ, timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    return [json.loads(line.removeprefix("TOLD ")) for line in lines]


@pytest.fixture(scope="module")
def card(libraries: Path) -> Iterator[Card]:  # noqa: ARG001  # for its skip
    """A simulated card with nobody else on it."""
    with simulated_card(CardSpec(total_bytes=16 * GIB)) as made:
        yield made


@pytest.mark.parametrize("model", MODELS)
def test_on_the_card(model: str, card: Card, tmp_path: Path) -> None:
    """On the simulated card, each model in a process of its own, within 20 % either way."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    bridge = bridge_for_command([sys.executable])
    environ = card.environment(
        {"TF_CPP_MIN_LOG_LEVEL": "3", "XDG_CACHE_HOME": cache}, bridge=bridge
    )
    cases = [f"{model} adam", f"{model} sgd"]
    told = told_by(cases, "GPU:0", tmp_path, environ)
    assert [each["case"] for each in told] == cases
    for each in told:
        assert each["estimated"] == pytest.approx(each["measured"], rel=0.2), each


def test_on_the_cpu(tmp_path: Path) -> None:
    """With the same allocator on the CPU, whose order of operations is another: within 25 %.

    Without the recurrent network: the order that TensorFlow leaves its loop in on a CPU changes
    from process to process, and the peak of the same step with it, between 10 and 20 MB.
    """
    cases = ["convnet adam", "transformer adam"]
    told = told_by(cases, "CPU:0", tmp_path, {**PLAIN, **COUNTED})
    assert [each["case"] for each in told] == cases
    for each in told:
        assert each["estimated"] == pytest.approx(each["measured"], rel=0.25), each
