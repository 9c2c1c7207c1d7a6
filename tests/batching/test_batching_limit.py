"""What dies in one piece ends right in batches, under a real allocator's limit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.programs.processes import run

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("batching_limit.py")
PLAIN = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}
LIMIT = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "300"}


class Told(NamedTuple):
    """What the program told, its outputs, and what stood on stderr."""

    numbers: dict[str, Any]
    outputs: Any
    said: str


def _told_by(environ: dict[str, str], folder: Path, who: str, *parts: str) -> Told:
    file = folder / f"{who}.npy"
    command = [sys.executable, "-W", "error", str(PROGRAM), who, str(file), *parts]
    done = run(command, folder, environ=environ, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    outputs = np.load(file) if "evaluate" in parts else None
    return Told(json.loads(line.removeprefix("TOLD ")), outputs, done.stderr)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Told]]]:
    """Three processes at once, because TensorFlow waits 10 s before each refusal."""
    folder, limited = tmp_path_factory.mktemp("limit"), {**PLAIN, **LIMIT}
    with ThreadPoolExecutor() as pool:
        yield {
            "keras": pool.submit(_told_by, PLAIN, folder, "keras", "evaluate", "fit"),
            "evaluate": pool.submit(_told_by, limited, folder, "gpuconf", "evaluate"),
            "fit": pool.submit(_told_by, limited, folder, "gpuconf", "fit"),
        }


@pytest.fixture(scope="module")
def unlimited(running: dict[str, Future[Told]]) -> Told:
    """What Keras gives where there is room."""
    return running["keras"].result()


@pytest.fixture(scope="module")
def limited(running: dict[str, Future[Told]]) -> Told:
    """What we give under 300 MB."""
    evaluated, fitted = running["evaluate"].result(), running["fit"].result()
    numbers = {**evaluated.numbers, **fitted.numbers}
    return Told(numbers, evaluated.outputs, evaluated.said + fitted.said)


def test_metrics_are_those_of_one_pass(unlimited: Told, limited: Told) -> None:
    """Loss, accuracy and AUC of 10000 pictures, which Keras cannot evaluate there in one piece."""
    assert limited.numbers["dies"]
    for name in ("whole", "partial"):  # the second's last batch has ten samples
        assert limited.numbers[name] == pytest.approx(unlimited.numbers[name], abs=1e-6)


def test_outputs_are_the_same(unlimited: Told, limited: Told) -> None:
    """Nearly to the bit: Eigen rounds the last rows of a batch otherwise than others."""
    assert limited.outputs.shape == (10_000, 1)
    np.testing.assert_allclose(limited.outputs, unlimited.outputs, rtol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_learning_curve_is_the_same(optimizer: str, unlimited: Told, limited: Told) -> None:
    """In parts the loss of each epoch is within 1e-5."""
    assert limited.numbers[optimizer] == pytest.approx(unlimited.numbers[optimizer], abs=1e-5)


def test_each_search_costs_one_refusal(limited: Told) -> None:
    """TensorFlow waits 10 s before each: at most one a call, and none where a size is known."""
    said = limited.said.splitlines()
    refused = [line for line in said if "samples do not fit" in line]
    for what, most in (("evaluate", 1), ("predict", 0), ("fit", 2)):  # fit for two optimizers
        assert sum(line.startswith(f"gpuconf: {what}: ") for line in refused) <= most, refused
    assert any("gpuconf: evaluate: " in line for line in refused)
    assert any("gpuconf: fit: " in line for line in refused)
