"""Which framework allocates a plan's reserve, when, and how much: real frameworks' own figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.programs.on_card import RunOnCard

pytestmark = pytest.mark.slow(seconds=30)

_PROFILE = """
extends: shared-desktop
memory: {per_process_gpu_memory_fraction: 0.25, reserve: 512MiB}
"""
_LINES = """
import gpuconf
report(lines=[str(each) for each in gpuconf.activation().settings if "reserve" in each.name])
"""
_TORCH = """
import gpuconf.auto
import torch
MIB = 1 << 20
report(first=torch.cuda.mem_get_info()[0] // MIB, reserved=torch.cuda.memory_reserved() // MIB)
held = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
report(after=torch.cuda.mem_get_info()[0] // MIB)
"""
_SMALLER = """
import gpuconf.auto
import tensorflow as tf
gpu = tf.config.list_physical_devices("GPU")[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(256)])
tf.config.set_visible_devices(gpu, "GPU")
with tf.device("GPU:0"):
    tf.raw_ops.Empty(shape=(1024,), dtype=tf.float32)
"""
_HIDDEN_FIRST = """
import gpuconf.auto
import tensorflow as tf
tf.compat.v1.disable_eager_execution()
for count in (0, 2):
    config = tf.compat.v1.ConfigProto(device_count={"GPU": count})
    with tf.compat.v1.Session(config=config) as session:
        session.run(tf.constant(1))
"""
_BOTH = """
import gpuconf.auto
import jax
import tensorflow as tf
jax.local_devices()
tf.config.list_logical_devices()
"""
_JAX = """
import gpuconf.auto
import jax
stats = jax.local_devices()[0].memory_stats() or {}
report(pool=stats.get("pool_bytes", 0) >> 20, limit=stats.get("bytes_limit", 0) >> 20)
"""

Lines = Callable[..., tuple[list[str], dict[str, int]]]


@pytest.fixture
def lines(run_on_card: RunOnCard, write_profile: Callable[[str], str]) -> Lines:
    """``lines(code, frameworks, more="", **variables)``: what is recorded and reported."""

    def run(
        code: str, frameworks: tuple[str, ...], more: str = "", **variables: str
    ) -> tuple[list[str], dict[str, int]]:
        profile = write_profile(_PROFILE + more)
        outcome = run_on_card(code + _LINES, profile, frameworks=frameworks, **variables)
        assert outcome.code == 0, outcome.log
        values = outcome.values
        return values.pop("lines"), values

    return run


def test_free_memory_includes_the_unused_reserve(lines: Lines) -> None:
    """What torch reports as free is the limit less the program's tensors, from the first call."""
    found, values = lines(_TORCH, ("torch",), CUDA_VISIBLE_DEVICES="0")
    assert found == ["reserve of cuda:0: 512 MiB"]
    assert values["first"] - values["after"] == 100
    assert values["reserved"] == 512 + 2


def test_a_smaller_limit_of_the_program_bounds_it(lines: Lines) -> None:
    """Above the limit, TensorFlow and XLA would wait 10 s and print their allocators' state."""
    found, _ = lines(_SMALLER, ())
    assert found == ["reserve of GPU:0: 254 MiB"]
    share = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.03"}
    found, values = lines(_JAX, ("jax",), **share)
    assert 0 <= values["limit"] - values["pool"] < 4
    assert found[0] == f"reserve of jax cuda:0: {values['pool']} MiB"


def test_one_framework_of_a_process_allocates_it(lines: Lines) -> None:
    """The process has one lease, however many frameworks compute in it."""
    found, _ = lines(_BOTH, ("jax",))
    assert found == ["reserve of jax cuda:0: 512 MiB", "reserve of jax cuda:1: 512 MiB"]


def test_an_allocator_without_a_pool_is_named(lines: Lines) -> None:
    """What it allocates returns to the driver, so the reserve is a lease only."""
    off = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_VISIBLE_DEVICES": "0"}
    (line,), values = lines(_TORCH, ("torch",), **off)
    assert line.startswith(
        "reserve of cuda:0: requested 512 MiB, got nothing: with PYTORCH_NO_CUDA"
    )
    assert values["reserved"] == 0
    found, _ = lines(_JAX, ("jax",), "jax: {allocator: platform}\n")
    assert found[0].startswith("reserve of jax cuda:0: requested 512 MiB, got nothing: with ")


def test_the_first_session_with_a_gpu_allocates_it(lines: Lines) -> None:
    """A session before it may have hidden them."""
    found, _ = lines(_HIDDEN_FIRST, ())
    assert found == ["reserve of GPU:0: 512 MiB", "reserve of GPU:1: 512 MiB"]
