"""Below an out-of-memory error: the limit that gpuconf set, which explain answers."""

from __future__ import annotations

import pytest

import gpuconf
from tests.programs.on_card import RunOnCard

GROWS = (
    "import gpuconf.auto, tensorflow as tf\nkept = [tf.zeros([64, 1024, 1024]) for _ in range(99)]"
)


@pytest.mark.slow
def test_the_limit_is_named_and_explained(run_on_card: RunOnCard) -> None:
    """It refused what the GPU has room for, so the first change is to allow more."""
    done = run_on_card(GROWS, "half-card")
    limit = "the limit of this process on GPU 0 (Simulated GeForce (gpuconf)) is 3942 MiB"
    (line,) = [line for line in done.log.splitlines() if line.startswith("gpuconf: ")]
    assert line.startswith(f"gpuconf: {limit} (profile half-card); ")
    diagnosis = gpuconf.explain(done.log)
    assert diagnosis.cause == "oom-device-tensor"
    assert diagnosis.proposals[0].paste == "gpuconf plan half-card"


OF_TENSORFLOW = (
    "import gpuconf.auto, tensorflow as tf\ntf.zeros([1])\n"
    "try:\n    {}\nexcept tf.errors.ResourceExhaustedError as error:\n    raise error from None\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "refused",
    [
        'tf.io.write_file("/dev/full", "x" * 9999)',
        'with tf.device("CPU:0"): tf.zeros([1 << 20, 1 << 20])',
    ],
)
def test_a_full_disk_and_host_memory_are_not_the_limits(
    run_on_card: RunOnCard, refused: str
) -> None:
    """TensorFlow raises the same exception for them, so only its message distinguishes them."""
    done = run_on_card(OF_TENSORFLOW.format(refused), "half-card")
    assert "ResourceExhaustedError" in done.log
    assert "the limit of this process" not in done.log
