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
