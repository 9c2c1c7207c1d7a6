"""TensorFlow's XLA compiles for a simulated card, with nothing of the system's CUDA."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gpuconf.errors import MissingDependencyError
from gpuconf.simcard import Card, simulated_card, xla_for_command
from gpuconf.simcard.installed import Frameworks
from gpuconf.simcard.xla import xla_support
from gpuconf.units import MIB
from tests.simcard.simcard_programs import STORY, RunClient

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


_TRAINING = """
import json
import keras
import numpy as np
import tensorflow as tf
from keras import layers

tf.config.experimental.set_memory_growth(tf.config.list_physical_devices("GPU")[0], True)
model = keras.Sequential([
    keras.Input((32, 32, 3)), layers.Conv2D(32, 3, padding="same", activation="gelu"),
    layers.BatchNormalization(), layers.MaxPooling2D(), layers.Flatten(), layers.Dropout(0.5),
    layers.Dense(64, activation="softplus"), layers.Reshape((8, 8)),
    layers.LSTM(16, use_cudnn=False), layers.Dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"], jit_compile=True)
seen = []
class Watch(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        tf.config.experimental.reset_memory_stats("GPU:0")
        self.before = tf.config.experimental.get_memory_info("GPU:0")["current"]
    def on_train_batch_end(self, batch, logs=None):
        seen.append(tf.config.experimental.get_memory_info("GPU:0")["peak"] - self.before)
model.fit(np.zeros((384, 32, 32, 3), "float32"), np.zeros(384, "int32"), batch_size=128,
          verbose=0, callbacks=[Watch()])
print("SEEN", json.dumps(seen))
"""


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
def test_keras_trains_compiled_and_takes_the_block_that_was_assigned(
    card: Card, tensorflow_python: str, run_tensorflow: RunClient, tmp_path: Path
) -> None:
    """Convolution, constants in modules, a loop, libdevice: one block for each step, no kernel run.

    The system's ptxas is not on PATH, and what the launches left out is said.
    """
    del card
    support = xla_for_command([tensorflow_python])
    dump = {"XLA_FLAGS": f"--xla_dump_to={tmp_path}", "PATH": "/usr/bin:/bin"}
    with simulated_card(STORY._replace(used_bytes=0)) as empty:
        done = run_tensorflow(
            empty, _TRAINING, GPUCONF_SIMCARD_KERNELS="skip", **support.environment(dump)
        )
    line = next(line for line in done.stdout.splitlines() if line.startswith("SEEN "))
    first, second, third = json.loads(line.removeprefix("SEEN "))
    block = _temp_bytes(tmp_path)
    assert block > 8 * MIB
    # With allow_growth a block of less than twice the size is given whole.
    assert all(block <= each < 2 * block + 2 * MIB for each in (first, second, third))
    assert "every computed number is garbage" in done.stderr
