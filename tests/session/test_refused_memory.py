"""Below an out-of-memory error: the limit that gpuconf set, which explain answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import gpuconf
from gpuconf.machine.cards.inventory import Gpu, GpuProcess
from gpuconf.planner import GpuPlan
from gpuconf.session.refused_memory import limit_of
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


BEHIND_ANOTHER = """
import os, subprocess, sys
import gpuconf.auto, tensorflow as tf
tf.zeros([1])
other = '''import tensorflow as tf
kept = tf.raw_ops.Empty(shape=[6000, 1024, 256], dtype=tf.float32)
print("up", flush=True)
input()'''
environ = {**os.environ, "GPUCONF_DISABLE": "1", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
pipe = subprocess.PIPE
child = subprocess.Popen([sys.executable, "-c", other], env=environ, stdin=pipe, stdout=pipe)
assert child.stdout.readline() == b"up\\n"
tf.raw_ops.Empty(shape=[3600, 1024, 256], dtype=tf.float32)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lease", ["true", "false"])
def test_a_full_gpu_is_not_blamed_on_the_limit(
    run_on_card: RunOnCard, tmp_path: Path, lease: str
) -> None:
    """The limit had room; a process without gpuconf has taken what was free, and is named."""
    rules = f"memory: {{memory_limit: 5GiB, lease: {lease}, allow_growth: true}}\n"
    path = tmp_path / "grows.yaml"
    path.write_text(rules)
    done = run_on_card(BEHIND_ANOTHER, str(path))
    (line,) = [line for line in done.log.splitlines() if line.startswith("gpuconf: ")]
    assert "MiB free; used or reserved by pid " in line
    assert line.endswith(", and its limit is 5120 MiB")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("GPU:0", "the limit of this process on GPU 0 (Simulated GeForce (gpuconf)) is 5120 MiB"),
        ("GPU:1", "GPU 1 (Simulated GeForce (gpuconf)) has "),
    ],
)
def test_of_two_gpus_the_one_that_refused_is_named(
    run_on_card: RunOnCard, tmp_path: Path, place: str, line: str
) -> None:
    """Another process fills GPU 1, which explains nothing about GPU 0, whose limit is reached."""
    path = tmp_path / "grows.yaml"
    path.write_text("memory: {memory_limit: 5GiB, allow_growth: true}\n")
    program = BEHIND_ANOTHER.replace("kept = ", "with tf.device('GPU:1'): kept = ")
    mib = 5200 if place == "GPU:0" else 3600
    last = f"with tf.device('{place}'): tf.raw_ops.Empty(shape=[{mib}, 1024, 256]"
    program = program.replace("tf.raw_ops.Empty(shape=[3600, 1024, 256]", last)
    done = run_on_card(program, str(path))
    (found,) = [line for line in done.log.splitlines() if line.startswith("gpuconf: ")]
    assert found.startswith(f"gpuconf: {line}"), found


@pytest.mark.parametrize(
    ("processes", "command"),
    [((GpuProcess(os.getpid(), 1),), "plan"), (None, "ps"), ((GpuProcess(2**30, None),), "ps")],
)
def test_the_limit_is_not_blamed_if_the_use_is_unknown(
    processes: tuple[GpuProcess, ...] | None, command: str
) -> None:
    """As in WSL2 and in containers, where the GPU may be full and the limit not reached."""
    gpu = Gpu(0, uuid="GPU-1", total_bytes=8 << 30, free_bytes=5 << 20, processes=processes)
    line = limit_of(GpuPlan(gpu, limit_bytes=4 << 30), gpu, "mine")
    assert line is not None
    assert "is 4096 MiB (profile mine); 5 MiB of the GPU's memory is free. " in line
    assert f"`gpuconf {command}` " in line
