"""A fraction where NVML reports nothing: each framework applies it to the total that CUDA has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuconf.basics.units import MIB
from tests.programs.on_card import SPEC, RunOnCard

pytestmark = pytest.mark.slow(seconds=30)

_PROFILE = "memory: {allow_growth: true, per_process_gpu_memory_fraction: 0.25}\n"
_START = """
import sys
sys.modules["pynvml"] = None  # as where a container has no NVML
import gpuconf.auto
"""
_PROGRAMS = {
    "tensorflow": """
import tensorflow as tf
from gpuconf.backends.tensorflow import readback
from tensorflow.python.eager import context
tf.config.list_logical_devices()
report(limits=list(readback.of_context(context.context()).values()))
""",
    "session": """
import tensorflow as tf
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    devices = session.list_devices()
report(limits=[each.memory_limit_bytes for each in devices if each.device_type == "GPU"])
""",
    "torch": """
import torch
torch.cuda.init()
totals = [torch.cuda.get_device_properties(index).total_memory for index in range(2)]
shares = [torch.cuda.get_per_process_memory_fraction(index) for index in range(2)]
report(limits=[share * total for share, total in zip(shares, totals)])
""",
    "jax": """
import jax
report(limits=[device.memory_stats()["bytes_limit"] for device in jax.devices()])
""",
}


@pytest.mark.parametrize("framework", _PROGRAMS)
def test_a_fraction_needs_no_figures(
    framework: str, run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """Both GPUs are limited to a quarter; JAX rounds up to 2 MiB."""
    wheels = (framework,) if framework in ("torch", "jax") else ()
    fresh = "it has no pynvml"
    code = _START + _PROGRAMS[framework]
    done = run_on_card(code, write_profile(_PROFILE), frameworks=wheels, fresh=fresh)
    assert done.code == 0, done.log
    limits = done.values["limits"]
    assert len(limits) == 2
    quarter = SPEC.total_bytes / 4
    assert all(quarter - MIB <= limit <= quarter + 2 * MIB for limit in limits), limits


def test_sizes_of_logical_devices_stay(
    run_on_card: RunOnCard, write_profile: Callable[[str], str]
) -> None:
    """TensorFlow refuses a fraction next to them."""
    memory = "memory: {allow_growth: true, per_process_gpu_memory_fraction: 0.25}\n"
    profile = write_profile(memory + "virtual_devices: [1GiB, 1GiB]\n")
    done = run_on_card(_START + _PROGRAMS["tensorflow"], profile, fresh="it has no pynvml")
    assert done.values["limits"] == [1024 * MIB] * 4, done.log
