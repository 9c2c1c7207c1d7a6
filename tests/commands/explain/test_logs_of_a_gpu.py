"""Logs of a real GPU, an NVIDIA H200 with TensorFlow 2.21, PyTorch 2.11 and JAX 0.11 (2026-11-27).

Programs of the acceptance wrote them (`make gpu`), and Keras's ``fit`` with a batch of 2048 under a
limit of 1500 MiB.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.commands.explain import explain

FOLDER = Path(__file__).parent / "h200"
SEE_OTHERS = "see what else is using the GPU, and stop what you don't need"
# Of each log: the cause, its severity, and a line of the answer.
EXPECTED = {
    "oom-fit.log": (
        "oom-device-tensor", "failure",
        "not claimed          986 MiB of the limit, less than the request",
    ),
    "second-program.log": (
        "oom-device-tensor", "failure",
        "your code            /home/me/hold_memory.py:16  tensor = tf.raw_ops.Empty(",
    ),
    "ninety-percent.log": ("oom-device-startup", "warning-only", "128840 MiB (135098892288 B)"),
    "torch-second-program.log": ("torch-oom", "failure", f"1. {SEE_OTHERS}"),
    "jax-second-program.log": ("jax-oom", "failure", f"1. {SEE_OTHERS}"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_what_a_real_gpu_wrote(name: str) -> None:
    """TensorFlow's packages were in a folder of their own, so no path says ``site-packages``."""
    cause, severity, line = EXPECTED[name]
    found = explain((FOLDER / name).read_bytes())
    assert (found.as_dict()["cause"], found.as_dict()["severity"]) == (cause, severity)
    assert line in str(found)
