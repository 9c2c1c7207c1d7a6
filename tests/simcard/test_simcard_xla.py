"""TensorFlow's XLA compiles for a simulated GPU, with nothing of the system's CUDA."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpuconf.basics.units import MIB
from gpuconf.errors import MissingDependencyError
from gpuconf.simcard import Card, bridge_for_command, simulated_card, xla_for_command
from gpuconf.simcard.installed import Frameworks, InstalledTensorFlow
from gpuconf.simcard.xla import xla_support
from tests.programs.card_clients import STORY, RunClient

_LIBDEVICE = Path("nvvm") / "libdevice" / "libdevice.10.bc"


def _with_libdevice(folder: Path) -> Path:
    (folder / _LIBDEVICE).parent.mkdir(parents=True)
    (folder / _LIBDEVICE).write_bytes(b"BC")
    return folder


def test_libdevice_is_the_wheels_before_an_installed_cudas(tmp_path: Path) -> None:
    """Which one it was can be said; without any the error names the extra."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "CUDA_HOME": str(tmp_path / "mine")}
    nowhere = tmp_path / "nowhere"
    with pytest.raises(MissingDependencyError) as raised:
        xla_support(Frameworks(), environ=environ, usual_toolkit=nowhere)
    assert raised.value.hint is not None
    assert "gpuconf[xla]" in raised.value.hint
    usual = _with_libdevice(tmp_path / "usual")
    found = xla_support(Frameworks(), environ=environ, usual_toolkit=usual)
    assert (found.libdevice, found.is_from_wheel) == (usual / _LIBDEVICE, False)
    mine = _with_libdevice(tmp_path / "mine")
    found = xla_support(Frameworks(), environ=environ, usual_toolkit=usual)
    assert (found.libdevice, found.is_from_wheel) == (mine / _LIBDEVICE, False)
    wheel = _with_libdevice(tmp_path / "nvidia" / "cuda_nvcc")
    found = xla_support(
        Frameworks(nvidia=tmp_path / "nvidia"), environ=environ, usual_toolkit=usual
    )
    assert (found.libdevice, found.is_from_wheel) == (wheel / _LIBDEVICE, True)
    assert (found.toolkit / _LIBDEVICE).read_bytes() == b"BC"
    assert found.environment({"XLA_FLAGS": "--mine"})["XLA_FLAGS"].startswith(
        "--mine --xla_gpu_cuda"
    )


def test_the_stand_ins_for_ptxas_and_nvlink_pass_on_what_they_get(tmp_path: Path) -> None:
    """PTX stays PTX, ended by a zero, and linking puts texts together."""
    _with_libdevice(tmp_path / "cuda")
    made = xla_support(
        Frameworks(), environ={"XDG_CACHE_HOME": str(tmp_path)}, usual_toolkit=tmp_path / "cuda"
    )
    ptxas, nvlink = made.toolkit / "bin" / "ptxas", made.toolkit / "bin" / "nvlink"
    (tmp_path / "a.ptx").write_text("// a\n")
    (tmp_path / "b.ptx").write_text("// b\n")
    for name in "ab":
        words = [str(ptxas), f"{name}.ptx", "-o", f"{name}.o", "-arch=sm_86", "--warn-on-spills"]
        subprocess.run(words, cwd=tmp_path, check=True)
    subprocess.run([nvlink, "-arch=sm_86", "-o", "ab", "a.o", "b.o"], cwd=tmp_path, check=True)
    assert (tmp_path / "a.o").read_bytes() == b"// a\n\0"
    assert (tmp_path / "ab").read_bytes() == b"// a\n// b\n\0"
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    assert "release 12." in said


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("2.15.1", "--xla_gpu_graph_level=0"),
        ("2.15.0.post1", "--xla_gpu_graph_level=0"),
        ("2.16.2", "--xla_gpu_enable_command_buffer="),
        ("2.21.0", "--xla_gpu_enable_command_buffer="),
    ],
)
def test_flags_are_those_that_the_version_knows(tmp_path: Path, version: str, flag: str) -> None:
    """XLA ends the process over another one."""
    toolkit = _with_libdevice(tmp_path / "cuda")
    found = Frameworks(InstalledTensorFlow(version, tmp_path, "python"))
    support = xla_support(found, environ={"XDG_CACHE_HOME": str(tmp_path)}, usual_toolkit=toolkit)
    assert [each for each in support.flags if "graph" in each or "command" in each] == [flag]


@pytest.mark.parametrize("skips", [False, True])
def test_products_and_convolutions_are_refused_by_name_or_skipped(
    card: Card, run_client: RunClient, skips: bool
) -> None:
    """XLA gets handles and descriptors that keep what it reads back; nothing passes in silence."""
    code = """
blas, lt, dnn = map(ctypes.CDLL, ("libcublas.so.12", "libcublasLt.so.12", "libcudnn.so.8"))
ctypes.CDLL("libcuda.so.1")
made, read, written = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_size_t()
print(blas.cublasCreate_v2(ctypes.byref(made)), blas.cublasGetMathMode(made, ctypes.byref(read)))
print(blas.cublasSgemm_v2(made), blas.cublasSgemm_v2(made), lt.cublasLtMatmul(made))
sizes = [ctypes.c_uint64(7), ctypes.c_uint64(5), ctypes.c_int64(7)]
print(lt.cublasLtMatrixLayoutCreate(ctypes.byref(made), 14, *sizes))
read_back = lambda name: (
    lt.cublasLtMatrixLayoutGetAttribute(
        made, name, ctypes.byref(read), ctypes.c_size_t(4), ctypes.byref(written)),
    read.value, written.value)
print(read_back(0), read_back(3), read_back(5), read_back(64))
print(lt.cublasLtMatrixLayoutDestroy(made))
print(dnn.cudnnCreateConvolutionDescriptor(ctypes.byref(made)))
print(dnn.cudnnSetConvolutionMathType(made, 3))
print(dnn.cudnnGetConvolutionMathType(made, ctypes.byref(read)), read.value)
print(dnn.cudnnGetConvolutionForwardWorkspaceSize(*[made] * 5, 1, ctypes.byref(written)))
print(written.value, dnn.cudnnConvolutionForward(made))
"""
    mode = {"GPUCONF_SIMCARD_KERNELS": "skip"} if skips else {}
    done = run_client(card, code, GPUCONF_SIMCARD_XLA="1", **mode)
    refused, without = (0, 0) if skips else (15, 9)
    assert done.stdout.splitlines() == [
        *("0 0", f"{refused} {refused} {refused}"),
        *("0", "(0, 14, 4) (0, 5, 4) (0, 1, 4) (7, 1, 4)", "0"),
        *("0", "0", "0 3", "0", f"0 {without}"),
    ], done.stderr
    for name in ("cublasSgemm_v2", "cublasLtMatmul", "cudnnConvolutionForward"):
        assert done.stderr.count(f"{name} is not supported") == (0 if skips else 1)


_TRAINING = """
import json
import os
import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(3)
tf.config.experimental.set_memory_growth(tf.config.list_physical_devices("GPU")[0], True)
model = keras.Sequential([
    keras.Input((16, 16, 3)), layers.Conv2D(32, 3, padding="same", activation="gelu"),
    layers.BatchNormalization(), layers.MaxPooling2D(), layers.Flatten(),
    layers.Dense(64, activation="softplus"), layers.Reshape((8, 8)),
    layers.LSTM(16, use_cudnn=False), layers.Dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"], jit_compile=json.loads(os.environ["JIT"]))
seen = []
class Watch(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        tf.config.experimental.reset_memory_stats("GPU:0")
        self.before = tf.config.experimental.get_memory_info("GPU:0")["current"]
    def on_train_batch_end(self, batch, logs=None):
        seen.append(tf.config.experimental.get_memory_info("GPU:0")["peak"] - self.before)
random = np.random.default_rng(0)
images = random.normal(size=(384, 16, 16, 3)).astype("float32")
kept = model.layers[0].kernel.value.read_value()  # a tensor that shares the variable's memory
history = model.fit(images, random.integers(0, 10, 384), batch_size=128, epochs=2, shuffle=False,
                    verbose=0, callbacks=[Watch()])
variable = tf.Variable([1.0, 2.0])

@tf.function(jit_compile=json.loads(os.environ["JIT"]))
def twice(one, other):
    one.assign_add([1.0, 1.0])
    other.assign(one * 2.0)
    return tf.cast(tf.size(one), tf.int32), other + 1.0

kernel = tf.Variable(random.normal(size=(3, 3, 4, 2)).astype("float32"))

@tf.function(jit_compile=json.loads(os.environ["JIT"]))
def channels_first(x):
    with tf.GradientTape() as tape:
        y = tf.nn.conv2d(x, kernel, 1, "SAME", data_format="NCHW")
        loss = tf.reduce_sum(tf.nn.max_pool2d(y, 2, 2, "SAME", data_format="NCHW") ** 2)
    return tape.gradient(loss, kernel)

count, total = twice(variable, variable)
slope = channels_first(tf.constant(images[:1, :4]))
numbers = [history.history["loss"], history.history["accuracy"],
           model.predict(images[:2], verbose=0).tolist(), float(np.abs(kept.numpy()).sum()),
           slope.numpy().tolist(),
           int(model.optimizer.iterations.numpy()), variable.numpy().tolist(), int(count),
           total.numpy().tolist()]
print("SEEN", json.dumps({"peaks": seen, "numbers": numbers}))
"""


class _Seen(NamedTuple):
    peaks: list[int]
    numbers: list[Any]
    stderr: str


def _train(run: RunClient, jit: str, bridge: Path | None, **environ: str) -> _Seen:
    with simulated_card(STORY._replace(used_bytes=0)) as empty:
        if bridge is not None:
            environ["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"] = str(bridge)
        done = run(empty, _TRAINING, JIT=jit, **environ)
    line = next(line for line in done.stdout.splitlines() if line.startswith("SEEN "))
    return _Seen(**json.loads(line.removeprefix("SEEN ")), stderr=done.stderr)


def _temp_bytes(dumped: Path) -> int:
    """The temporary block of the largest module that was compiled."""
    lines = [
        line
        for file in dumped.glob("*buffer-assignment.txt")
        for line in file.read_text().splitlines()
        if line.startswith("allocation") and "preallocated-temp" in line
    ]
    return max(int(line.split("size ")[1].split(",")[0]) for line in lines)


@pytest.mark.slow
def test_a_compiled_step_takes_xlas_memory_and_has_the_cpus_numbers(
    card: Card, tensorflow_python: str, run_tensorflow: RunClient, tmp_path: Path
) -> None:
    """Convolution, constants in modules, a loop, libdevice, a variable given twice, a shared value,
    and images with their channels first, which TensorFlow's CPU kernels do not know.
    With launches skipped XLA runs alone, and that is said.  With the bridge each step takes the
    same bytes, and losses, weights and results are those of the same training without XLA.
    The system's ptxas is not on PATH.
    """
    del card
    environ = xla_for_command([tensorflow_python]).environment({"PATH": "/bin"})
    dump = {"XLA_FLAGS": f"{environ['XLA_FLAGS']} --xla_dump_to={tmp_path}"}
    alone = _train(
        run_tensorflow, "true", None, **{**environ, **dump, "GPUCONF_SIMCARD_KERNELS": "skip"}
    )
    block = _temp_bytes(tmp_path)
    assert block > 8 * MIB
    # With allow_growth a block of less than twice the size is given whole.
    assert all(block <= each < 2 * block + 2 * MIB for each in alone.peaks)
    assert "every computed number is garbage" in alone.stderr
    bridge = bridge_for_command([tensorflow_python])
    compiled = _train(run_tensorflow, "true", bridge, **environ)
    op_by_op = _train(run_tensorflow, "false", bridge, **environ)
    assert compiled.peaks == alone.peaks
    assert compiled.peaks != op_by_op.peaks
    assert "garbage" not in compiled.stderr
    for one, other in zip(compiled.numbers, op_by_op.numbers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert compiled.numbers[5:] == [6, [4.0, 6.0], 2, [5.0, 7.0]]
