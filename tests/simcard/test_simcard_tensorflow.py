"""Real TensorFlow on a simulated GPU: its GPU device and BFC allocator are the real ones.

Each test starts TensorFlow once or a few times (some 3 s each) and asserts a lot.  Limits, growth
up to a limit, and programs next to each other are checks of tests/acceptance.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card, simulated_card
from tests.programs.card_clients import STORY, RunClient

pytestmark = pytest.mark.slow

_CREATED = re.compile(
    r"Created device \S+GPU:(\d+) with (\d+) MB memory: .*pci bus id: ([0-9a-f:.]+), "
    r"compute capability: ([0-9.]+)"
)
# What a program needs to see the GPU as another program would: through NVML.
_NVML = """
import ctypes, json, os
import tensorflow as tf

nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
first_card = ctypes.c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(first_card))
def used_mib():
    memory = (ctypes.c_ulonglong * 3)()
    nvml.nvmlDeviceGetMemoryInfo(first_card, memory)
    return memory[2] / 2**20
"""


def _created(done: subprocess.CompletedProcess[str]) -> list[tuple[int, int, str, str]]:
    """Number, MB, bus id and compute capability of every device that TensorFlow made."""
    found = _CREATED.findall(done.stderr)
    return [(int(number), int(mb), bus, capability) for number, mb, bus, capability in found]


def test_the_issues_card_and_where_everything_comes_from(
    card: Card, run_tensorflow: RunClient
) -> None:
    """7783 MB on 11264 with 1945 used; the context appears with the device and not before; no
    CUDA library comes from anywhere but the stand-ins, whatever pip packages are installed."""
    done = run_tensorflow(
        card,
        """
import ctypes, json
import tensorflow as tf
cuda = ctypes.CDLL("libcuda.so.1")
def active():
    flags, state = ctypes.c_uint(), ctypes.c_int(-1)
    cuda.cuInit(0)
    assert cuda.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(state)) == 0
    return state.value
seen = [active()]
(gpu,) = tf.config.list_physical_devices("GPU")
details = tf.config.experimental.get_device_details(gpu)
seen.append(active())
tf.config.list_logical_devices("GPU")
seen.append(active())
with open("/proc/self/maps") as maps:
    files = {line.split()[-1] for line in maps if ".so" in line}
print(json.dumps([seen, details["device_name"], sorted(files)]))
""",
    )
    seen, name, files = json.loads(done.stdout)
    assert _created(done) == [(0, 7783, "0000:01:00.0", "8.6")]
    assert (seen, name) == ([0, 0, 1], "Simulated GeForce (gpuconf)")
    driver = [
        file
        for file in files
        if re.match(r"lib(cu[a-z]+|cudnn|nvidia-ml)\.so", file.split("/")[-1])
    ]
    assert len(driver) >= 5
    assert {os.path.dirname(file) for file in driver} == {str(card.libraries)}


@pytest.mark.parametrize(
    ("capability", "available_mib", "reserve_mib"),
    [("6.1", 9319, 500), ("7.5", 9319, 1050), ("9.0", 9319, 1800), ("8.6", 2000, 225)],
)
def test_the_reserve_is_tensorflows(
    libraries: object,  # noqa: ARG001  # for its skip
    run_tensorflow: RunClient,
    capability: str,
    available_mib: int,
    reserve_mib: int,
) -> None:
    """The reserve follows the compute capability, and is 225 MiB below 2 GiB."""
    used_bytes = STORY.total_bytes - available_mib * MIB
    spec = STORY._replace(compute_capability=capability, used_bytes=used_bytes)
    with simulated_card(spec) as card:
        done = run_tensorflow(
            card, "import tensorflow as tf; tf.config.list_logical_devices('GPU')"
        )
    assert [mb for _, mb, _, _ in _created(done)] == [available_mib - reserve_mib]


_SESSION = (
    _NVML
    + """
v1 = tf.compat.v1
v1.disable_eager_execution()
options = v1.GPUOptions(per_process_gpu_memory_fraction=0.9)
with v1.Session(config=v1.ConfigProto(gpu_options=options)) as session:
    with tf.device("GPU"):
        total = tf.zeros([1000])
    print(json.dumps([session.run(total).tolist() == [0] * 1000, used_mib()]))
"""
)


def test_a_fraction_beyond_what_is_free_fails_and_is_retried(
    card: Card, run_tensorflow: RunClient
) -> None:
    """0.9 of a busy GPU: the message of the issue, to the byte, and then nine tenths of it.

    Old TensorFlow writes 9.90G, 2.15 and later 9.90GiB; 2.21 puts a status before the error.
    """
    done = run_tensorflow(card, _SESSION)
    assert [mb for _, mb, _, _ in _created(done)] == [10137]
    failures = re.findall(
        r"failed to allocate (\S+) \((\d+) bytes\) from device: (?:RESOURCE_EXHAUSTED: : )?(\w+)",
        done.stderr,
    )
    assert [(size[:5], int(count), error) for size, count, error in failures] == [
        ("9.90G", 10630043904, "CUDA_ERROR_OUT_OF_MEMORY")
    ]
    right, used = json.loads(done.stdout)
    assert right
    # BFC asks again for 0.9 of it, in whole units of 256 bytes.
    assert used - 1945 == pytest.approx(0.9 * 10630043904 / MIB, abs=256 / MIB)


def test_numbers_that_need_no_arithmetic_are_right(card: Card, run_tensorflow: RunClient) -> None:
    """Constants, variables, assignment, identity, reshape and fills of every type Eigen fills
    come back as they went in, and were on the GPU."""
    run_tensorflow(
        card,
        """
import numpy as np, tensorflow as tf
def same(tensor, expected):
    assert tensor.device.endswith("GPU:0"), tensor.device
    np.testing.assert_array_equal(tensor.numpy(), expected)
data = np.random.default_rng(0).normal(size=(100, 30)).astype("float32")
constant = tf.constant(data)
same(constant, data)
same(tf.identity(constant), data)
same(tf.reshape(constant, [3000]), data.reshape(3000))
same(tf.expand_dims(constant, 0), data[None])
same(tf.function(tf.identity)(constant), data)
variable = tf.Variable(tf.zeros([100, 30]))
same(variable, np.zeros((100, 30)))
variable.assign(constant)
same(variable, data)
for dtype in ("float32", "float64", "int64", "int8", "uint8", "int16", "uint16"):
    for count in (1, 3, 1_000_001):
        same(tf.fill([count], tf.constant(113, dtype)), np.full(count, 113, dtype))
        same(tf.ones([count], dtype), np.ones(count, dtype))
        same(tf.zeros([count], dtype), np.zeros(count, dtype))
same(tf.fill([7], True), np.full(7, True))
same(tf.constant(2.5, shape=[4, 5]), np.full((4, 5), 2.5, "float32"))
same(tf.raw_ops.Empty(shape=[1000], dtype=tf.float32, init=True), np.zeros(1000))
""",
    )


def test_a_kernel_is_never_silent(card: Card, run_tensorflow: RunClient) -> None:
    """By default the program stops with the kernel's name; in the error mode no number comes
    out: neither from Eigen, which looks at no launch's result, nor from what was computed with
    BLAS or cuDNN, which are not there."""
    code = "import tensorflow as tf; print((tf.constant([1.0, 2.0]) + 1.0).numpy())"
    stopped = run_tensorflow(card, code, EXPECT_FAILURE="1")
    assert (stopped.returncode, stopped.stdout) == (-signal.SIGABRT, "")
    assert "AddV2_GPU_DT_FLOAT" in stopped.stderr
    assert "computes nothing" in stopped.stderr
    failing = """
import tensorflow as tf
def refused(function):
    try:
        print("WRONG", function())
    except tf.errors.InternalError as error:
        return True
one = tf.constant([[1.0, 2.0], [3.0, 4.0]])
assert refused(lambda: (one + 1.0).numpy())
assert refused(lambda: tf.matmul(one, one).numpy())
assert one.numpy().sum() == 10
variable = tf.Variable(one)
variable.assign_add(one)  # Eigen: reports nothing
assert refused(variable.numpy)
"""
    done = run_tensorflow(card, failing, GPUCONF_SIMCARD_KERNELS="error")
    assert done.stdout == ""
    assert "EigenMetaKernel" in done.stderr
