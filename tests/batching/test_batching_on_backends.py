"""``evaluate``, ``predict`` and ``fit`` of Keras on PyTorch and JAX: as Keras's, and in parts.

The allocators that refuse are the frameworks' own, on a simulated GPU; see the program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.programs.on_card import RunOnCard

pytestmark = pytest.mark.slow(seconds=60)

PROGRAM = Path(__file__).with_name("batching_on_backends.py")
ALL = ["weighted", "masked", "unbuilt", "summed"]
# XLA waits 10 seconds before each refusal, so on JAX the allocator itself refuses in one case.
TORCH = {"KERAS_BACKEND": "torch", "KERAS_TORCH_DEVICE": "cpu", "REAL": ",".join(ALL)}
JAX = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu,cuda",
    "REAL": "weighted",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.01136",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
NEARLY = 3e-6  # of sums in another order, in float32
SQUARED = 1e-4  # of weights near 0, after Adam's division by a root


@pytest.mark.parametrize(
    ("backend", "variables", "cases"),
    [
        ("torch", TORCH, ["weighted", "unbuilt"]),
        ("jax", JAX, ["weighted"]),
        pytest.param("torch", TORCH, ALL, marks=pytest.mark.nightly),
        pytest.param("jax", JAX, ALL, marks=pytest.mark.nightly),
    ],
)
def test_as_keras(
    backend: str, variables: dict[str, str], cases: list[str], run_on_card: RunOnCard
) -> None:
    """Whole batches give Keras's numbers; parts the same, where a batch is the sum of its parts."""
    code = PROGRAM.read_text("utf-8")
    outcome = run_on_card(code, frameworks=(backend,), CASES=",".join(cases), **variables)
    assert outcome.code == 0, outcome.log
    values = outcome.values
    for case in cases:
        _check(values[case], case, is_real=case in variables["REAL"])
    # At once where the GPU's limit is known; JAX's default device is the CPU here.
    assert values["automatic"] == [[53, 3], 1 if backend == "torch" else 2]
    *apart, held = values["generated"]
    assert max(apart) < NEARLY
    assert held == ([4, 8] if backend == "torch" else [])  # of 20: 8, 8 and 4
    apart, refusal = values["own_steps"]
    assert apart < NEARLY
    assert refusal == "card_batch_size=4"
    name, is_as_before = values["not_even_one"]
    assert name == ("OutOfMemoryError" if backend == "torch" else "JaxRuntimeError")
    assert is_as_before
    assert values["torn_updates"] == ([0.0, name, 0.0] if backend == "torch" else [0.0])
    assert "weight update" in outcome.log
    assert "16 samples do not fit; continuing with 8" in outcome.log


def _check(found: dict[str, Any], case: str, *, is_real: bool) -> None:
    assert max(found[each] for each in ("history", "weights", "evaluate", "predict")) < NEARLY, case
    assert found["evaluate in parts"] < NEARLY, case
    assert found["predict in parts"] < NEARLY, case
    if case != "unbuilt":
        assert found["fit in parts"] < NEARLY, case
        assert found["weights in parts"] < SQUARED, case
    if is_real:  # parts of 16 samples are 8, and a last batch of 5 is whole
        assert max(found["fit held"]) == max(found["held"]) == 8
