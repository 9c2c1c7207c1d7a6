"""Operations that XLA compiles when they are called: Keras's slice_update is one on TensorFlow."""

from __future__ import annotations

import json

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card, bridge_for_command
from gpuconf.simcard.bridge import VARIABLE
from tests.programs.card_clients import RunClient

_PROGRAM = """
import json
import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops as xla
from tensorflow.python.framework import kernels

gpu, = tf.config.list_physical_devices("GPU")
limit = tf.config.LogicalDeviceConfiguration(memory_limit=700)
tf.config.set_logical_device_configuration(gpu, [limit])

def of_floats(function, number):
    specs = [tf.TensorSpec([], tf.float32)] * number
    return tf.function(function).get_concrete_function(*specs)

x = tf.constant(np.random.RandomState(0).randn(4, 6), tf.float32)
add = of_floats(lambda one, other: one + other, 2)
small = of_floats(lambda one: one < 10, 1)
double = of_floats(lambda one: one * 2, 1)

def updated(x, dtype="float32"):
    return xla.xla_dynamic_update_slice(tf.cast(x, dtype), tf.ones((2, 2), dtype), [1, 1])

cases = {
    "XlaDynamicUpdateSlice": lambda: updated(x),
    "in half precision": lambda: updated(x, "float16"),
    "of integers": lambda: updated(x, "int64"),
    "in a function": lambda: tf.function(updated)(x),
    "in a compiled function": lambda: tf.function(updated, jit_compile=True)(x),
    "XlaDynamicSlice": lambda: xla.xla_dynamic_slice(x, [1, 1], [2, 2]),
    "XlaPad": lambda: xla.xla_pad(x, 0.0, [1, 0], [0, 1], [1, 0]),
    "XlaEinsum": lambda: xla.xla_einsum(x, tf.transpose(x), "ab,bc->ac"),
    "XlaKeyValueSort": lambda: xla.xla_key_value_sort(x, tf.reshape(tf.range(24), (4, 6))),
    "XlaReduce": lambda: xla.xla_reduce(x, 0.0, [1], add),
    "XlaSelfAdjointEig": lambda: xla.xla_self_adjoint_eig(x[:, :4], True, 100, 1e-6),
    "XlaWhile": lambda: xla.xla_while([tf.constant(3.0)], small, double),
}

def results(make, device):
    with tf.device(device):
        return tf.nest.flatten(make())

differing, devices = [], set()
for name, make in cases.items():
    on_card, on_cpu = results(make, "GPU"), results(make, "CPU")
    devices |= {each.device[-5:] for each in on_card}
    if not all(np.array_equal(one, other) for one, other in zip(on_card, on_cpu, strict=True)):
        differing.append(name)

registered = {}
for kernel in kernels.get_all_registered_kernels().kernel:
    if kernel.op.startswith("Xla") and kernel.device_type == "GPU":
        registered.setdefault(kernel.op, set()).add(kernel.priority)

def in_use():
    return tf.config.experimental.get_memory_info("GPU:0")["current"]

def error_of(make):
    try:
        make()
    except tf.errors.OpError as error:
        return [type(error).__name__, error.message]

large = tf.zeros((64, 1024, 1024))
before, kept = in_use(), []
kept.append(xla.xla_pad(large, 0.0, [0, 0, 0], [0, 0, 0], [0, 0, 0]))
print(json.dumps({
    "differing": differing,
    "devices": sorted(devices),
    "bare": sorted(op for op, priorities in registered.items() if 2 not in priorities),
    "bytes": in_use() - before,
    "full": error_of(lambda: xla.xla_pad(large, 0.0, [64, 0, 0], [0, 0, 0], [0, 0, 0])),
    "unknown to a CPU": error_of(lambda: xla.xla_send(x, "somewhere")),
}))
"""


@pytest.mark.slow
def test_they_have_the_cpus_results_in_memory_of_the_card(
    card: Card, run_tensorflow: RunClient, tensorflow_python: str
) -> None:
    """Every one has a twin, errors are exceptions, and results count in the GPU's allocator."""
    bridge = bridge_for_command([tensorflow_python])
    done = json.loads(run_tensorflow(card, _PROGRAM, **{VARIABLE: str(bridge)}).stdout)
    assert done["differing"] == []
    assert done["devices"] == ["GPU:0"]
    assert done["bare"] == ["XlaLaunch"], "that one runs what XLA compiled before"
    assert 256 * MIB <= done["bytes"] < 257 * MIB
    assert done["full"][0] == "ResourceExhaustedError"
    assert "GPU:0" in done["full"][1]
    assert done["unknown to a CPU"][0] == "UnimplementedError"
