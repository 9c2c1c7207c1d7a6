"""`MemoryUsage`: what goes into the logs, in every Keras, and that it never breaks a training."""

from __future__ import annotations

import copy
import csv
import importlib.util
import json
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processes import run, run_python

from gpuconf.callbacks import MemoryUsage
from gpuconf.callbacks.gauge import Use, choose_devices, is_device, short_name
from gpuconf.callbacks.memory_usage import figures
from gpuconf.errors import UsageError
from gpuconf.simcard import Card, bridge_for_command

pytest_plugins = ("simcard_fixtures",)

MIB = 1024**2
ESTIMATE = SimpleNamespace(peak_bytes=7 * MIB)

# Two epochs of a model whose weights and Adam's state take 12 MiB; ends in `told`.
_TRAINING = """
import json, sys
from types import SimpleNamespace
import numpy as np
{keras}
from gpuconf.callbacks import MemoryUsage

model = keras.Sequential([keras.layers.Input((1024,)), keras.layers.Dense(1024)])
model.compile("adam", "mse")
x, y = np.zeros((64, 1024), "float32"), np.zeros((64, 1024), "float32")
told = {{}}
{body}
print("TOLD", json.dumps(told))
"""
_KERAS = {"keras": "import keras", "tf_keras": "import tf_keras as keras"}


def train(
    folder: Path, body: str, *, keras: str = "keras", **environ: str
) -> tuple[dict[str, Any], str]:
    """What the program told, and its stderr; ``body`` sees ``model``, ``x``, ``y``."""
    program = folder / "program.py"
    program.write_text(_TRAINING.format(keras=_KERAS[keras], body=body), encoding="utf-8")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", **environ}
    done = run([sys.executable, str(program)], folder, environ=quiet, timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    return json.loads(told[-1].removeprefix("TOLD ")), done.stderr


def on_card(card: Card) -> dict[str, str]:
    """The variables with which TensorFlow computes on the card."""
    return card.environment({}, bridge=bridge_for_command([sys.executable]))


@pytest.mark.parametrize(
    ("uses", "estimate", "validation", "with_numbers", "expected"),
    [
        ({}, ESTIMATE, {}, False, {}),
        (
            {"GPU:0": Use(3, 5)},
            None,
            {},
            False,
            {"gpu_memory_current_bytes": 3, "gpu_memory_peak_bytes": 5},
        ),
        (
            {"GPU:0": Use(3, 5)},
            ESTIMATE,
            {"GPU:0": 6},
            False,
            {
                "gpu_memory_current_bytes": 3,
                "gpu_memory_peak_bytes": 5,
                "val_gpu_memory_peak_bytes": 6,
                "gpu_memory_peak_estimate_bytes": 7 * MIB,
            },
        ),
        (
            {"GPU:0": Use(3, 5), "GPU:1": Use(2, 4)},
            ESTIMATE,
            {},
            True,
            {
                "gpu_memory_current_bytes_gpu0": 3,
                "gpu_memory_peak_bytes_gpu0": 5,
                "gpu_memory_current_bytes_gpu1": 2,
                "gpu_memory_peak_bytes_gpu1": 4,
                "gpu_memory_peak_estimate_bytes": 7 * MIB,
            },
        ),
        (
            {"CPU:0": Use(3, 5)},
            None,
            {},
            False,
            {"cpu_memory_current_bytes": 3, "cpu_memory_peak_bytes": 5},
        ),
    ],
)
def test_the_names_of_the_figures(
    uses: dict[str, Use],
    estimate: SimpleNamespace | None,
    validation: dict[str, int],
    with_numbers: bool,
    expected: dict[str, float],
) -> None:
    """Keys say device and unit; numbers of GPUs where there are several; the estimate once."""
    found = figures(uses, estimate, validation_peaks=validation, with_numbers=with_numbers)
    assert found == expected
    assert all(isinstance(value, float) for value in found.values())


@pytest.mark.parametrize(
    ("wanted", "names", "devices", "problem"),
    [
        ("GPU:0", ["CPU:0", "GPU:0", "GPU:1"], ("GPU:0",), None),
        ("/device:gpu:1", ["CPU:0", "GPU:0", "GPU:1"], ("GPU:1",), None),
        (None, ["CPU:0", "GPU:0", "GPU:1"], ("GPU:0", "GPU:1"), None),
        ("CPU:0", ["CPU:0"], ("CPU:0",), None),
        ("GPU:0", ["CPU:0"], (), "uses no GPU"),
        (None, ["CPU:0"], (), "uses no GPU"),
        ("GPU:2", ["CPU:0", "GPU:0"], (), "no GPU:2, only CPU:0, GPU:0"),
        ("TPU:0", ["CPU:0"], (), "no TPU:0, only CPU:0"),
    ],
)
def test_which_devices_are_read(
    wanted: str | None, names: list[str], devices: tuple[str, ...], problem: str | None
) -> None:
    """The one asked for or all GPUs; where there is none, in words why."""
    found, told = choose_devices(wanted, names)
    assert found == devices
    assert told is None if problem is None else problem in (told or "")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("GPU:0", "GPU:0"),
        ("gpu:12", "GPU:12"),
        ("/GPU:1", "GPU:1"),
        ("device:GPU:1", "GPU:1"),
        ("/device:GPU:1", "GPU:1"),
        ("/job:worker/replica:0/task:3/device:GPU:1", "GPU:1"),
        ("/device:XLA_CPU:0", "XLA_CPU:0"),
    ],
)
def test_all_of_tensorflows_names_of_a_device(name: str, short: str) -> None:
    """Each way in which TensorFlow names a device is understood."""
    assert is_device(name)
    assert short_name(name) == short


@pytest.mark.parametrize("device", ["GPU", "0", "", "GPU:", "GPU:-1", 0, "GPU:0,GPU:1"])
def test_a_name_of_no_device_is_refused(device: object) -> None:
    """At once, and not after the first epoch."""
    with pytest.raises(UsageError, match="no device of TensorFlow") as caught:
        MemoryUsage(device=device)  # type: ignore[arg-type]
    assert caught.value.hint is not None


@pytest.mark.parametrize("estimate", ["GPU:1", 7, SimpleNamespace(peak_bytes=None)])
def test_what_is_no_estimate_is_refused(estimate: Any) -> None:
    """A device in the estimate's place is the likely slip: the hint says how to give one."""
    with pytest.raises(UsageError, match="no peak_bytes") as caught:
        MemoryUsage(estimate)
    assert 'device="GPU:1"' in (caught.value.hint or "")


def test_it_can_be_copied_and_pickled() -> None:
    """Tuners copy callbacks for every trial."""
    usage = MemoryUsage(ESTIMATE, device=None)
    for other in (copy.deepcopy(usage), pickle.loads(pickle.dumps(usage))):
        assert other.estimate == ESTIMATE
        assert other.device is None


def test_importing_it_imports_no_framework(tmp_path: Path) -> None:
    """One class serves every Keras, because it needs none."""
    told = run_python(
        """
        import sys
        import gpuconf.callbacks
        print(sorted({"tensorflow", "keras", "tf_keras", "numpy"} & set(sys.modules)))
        """,
        tmp_path,
    )
    assert told.strip() == "[]"


_FIT = """
history = model.fit(x, y, epochs=2, verbose=0, validation_data=(x, y), callbacks=[
    MemoryUsage(SimpleNamespace(peak_bytes=7), device={device!r})])
told = dict(history.history)
"""


@pytest.mark.slow
@pytest.mark.parametrize("keras", _KERAS)
def test_without_a_gpu_the_training_goes_on(tmp_path: Path, keras: str) -> None:
    """One line says why nothing is measured, and the logs are as without the callback."""
    body = _FIT.format(device="GPU:0")
    told, stderr = train(tmp_path, body, keras=keras, CUDA_VISIBLE_DEVICES="-1")
    assert sorted(told) == ["loss", "val_loss"]
    said = [line for line in stderr.splitlines() if line.startswith("gpuconf: ")]
    assert len(said) == 1
    assert "uses no GPU here" in said[0]
    assert "gpuconf doctor" in said[0]


@pytest.mark.slow
def test_what_tensorflow_does_not_tell_breaks_nothing(tmp_path: Path) -> None:
    """A device that is lost, or whose allocator keeps no count: told once, and asked no more."""
    body = """
from gpuconf.callbacks.gauge import Gauge
gauge = Gauge()
gauge.find("CPU:0", model)
gauge._devices = ("GPU:7",)  # which TensorFlow has not
gauge.reset()
told["first"] = gauge.read()
told["second"] = gauge.read()
"""
    told, stderr = train(tmp_path, body, CUDA_VISIBLE_DEVICES="-1")
    assert told == {"first": {}, "second": {}}
    assert stderr.count("does not count the memory of GPU:7 (ValueError") == 1


@pytest.mark.slow
def test_keras_on_another_backend(tmp_path: Path) -> None:
    """With Keras on JAX nothing is measured, and TensorFlow is not made to look for devices."""
    body = """
import tensorflow as tf
def fail(*_): raise AssertionError("TensorFlow was asked")
tf.config.list_logical_devices = fail
""" + _FIT.format(device="GPU:0")
    environ = {"KERAS_BACKEND": "jax", "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    told, stderr = train(tmp_path, body, **environ)
    assert sorted(told) == ["loss", "val_loss"]
    assert "Keras computes with jax" in stderr


@pytest.mark.slow
@pytest.mark.parametrize("keras", _KERAS)
def test_epochs_on_a_card(tmp_path: Path, card: Card, keras: str) -> None:
    """What follows in ``callbacks`` sees figures that are TensorFlow's own, in every epoch.

    History and CSVLogger keep them; one that stands before does not have them.  The validation's
    batch is a hundred times the training's, and so its peak is the higher, in its own column alone.
    """
    body = """
import tensorflow as tf
class Own(keras.callbacks.Callback):
    current = []
    def on_epoch_end(self, epoch, logs=None):
        self.current.append(tf.config.experimental.get_memory_info("GPU:0")["current"])
big = tf.data.Dataset.range(1).map(lambda _: (tf.zeros((6400, 1024)), tf.zeros((6400, 1024))))
history = model.fit(x, y, batch_size=64, epochs=2, verbose=0, validation_data=big,
    callbacks=[keras.callbacks.CSVLogger("before.csv"),
               MemoryUsage(SimpleNamespace(peak_bytes=7)), Own(),
               keras.callbacks.CSVLogger("after.csv")])
told = {**history.history, "own": Own.current}
"""
    told, stderr = train(tmp_path, body, keras=keras, **on_card(card))
    assert "MemoryUsage" not in stderr
    current, peak = told["gpu_memory_current_bytes"], told["gpu_memory_peak_bytes"]
    assert current == told["own"]
    assert told["gpu_memory_peak_estimate_bytes"] == [7.0, 7.0]
    assert all(12 * MIB < now < 40 * MIB for now in current)
    assert all(now < most < 40 * MIB for now, most in zip(current, peak, strict=True))
    assert all(most > 70 * MIB for most in told["val_gpu_memory_peak_bytes"])
    before = (tmp_path / "before.csv").read_text().splitlines()[0]
    assert "gpu_memory" not in before
    with (tmp_path / "after.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["gpu_memory_peak_bytes"]) for row in rows] == peak
    assert [float(row["gpu_memory_peak_estimate_bytes"]) for row in rows] == [7.0, 7.0]


@pytest.mark.slow
@pytest.mark.parametrize("keras", _KERAS)
def test_evaluate_and_predict(tmp_path: Path, card: Card, keras: str) -> None:
    """Their figures are in ``last``; what they return is as without the callback.

    After a training that an exception ended in the middle of an epoch, too.
    """
    body = """
class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise RuntimeError("of the test")
usage = MemoryUsage()
try:
    model.fit(x, y, verbose=0, callbacks=[usage, Stop()])
except RuntimeError:
    pass
told["after the error"] = dict(usage.last)
told["evaluate"] = float(model.evaluate(x, y, verbose=0, callbacks=[usage]))
told["evaluated"] = dict(usage.last)
told["rows"] = len(model.predict(x, verbose=0, callbacks=[usage]))
told["predicted"] = dict(usage.last)
"""
    told, _ = train(tmp_path, body, keras=keras, **on_card(card))
    assert told["after the error"] == {}
    assert told["rows"] == 64
    for name in ("evaluated", "predicted"):
        assert set(told[name]) == {"gpu_memory_current_bytes", "gpu_memory_peak_bytes"}
        assert 0 < told[name]["gpu_memory_current_bytes"] <= told[name]["gpu_memory_peak_bytes"]


@pytest.mark.slow
def test_several_gpus(tmp_path: Path, two_cards: Card) -> None:
    """Under MirroredStrategy both replicas are measured, under names of their own.

    A GPU that a later training does not use is left out with one line: 0 would be no measurement.
    """
    body = """
import tensorflow as tf
reduce = tf.distribute.HierarchicalCopyAllReduce()
with tf.distribute.MirroredStrategy(cross_device_ops=reduce).scope():
    model = keras.Sequential([keras.layers.Input((1024,)), keras.layers.Dense(1024)])
    model.compile("adam", "mse")
told = model.fit(x, y, verbose=0, callbacks=[MemoryUsage(device=None)]).history
"""
    told, _ = train(tmp_path, body, **on_card(two_cards))
    for number in (0, 1):
        assert told[f"gpu_memory_peak_bytes_gpu{number}"][0] > 12 * MIB
    alone, stderr = train(
        tmp_path,
        "told = model.fit(x, y, verbose=0, callbacks=[MemoryUsage(device=None)]).history",
        **on_card(two_cards),
    )
    assert alone["gpu_memory_peak_bytes_gpu0"][0] > 12 * MIB
    assert "gpu_memory_peak_bytes_gpu1" not in alone
    assert stderr.count("counts no byte on GPU:1") == 1


@pytest.mark.slow
def test_tensorboard_shows_them(tmp_path: Path, card: Card) -> None:
    """They are scalars of the training's run, and the validation's peak of the other run."""
    if importlib.util.find_spec("tensorboard") is None:
        pytest.skip("tensorboard is not installed; TensorFlow's wheel brings it before 2.20")
    body = """
import tensorflow as tf
model.fit(x, y, epochs=2, verbose=0, validation_data=(x, y), callbacks=[
    MemoryUsage(SimpleNamespace(peak_bytes=7)), keras.callbacks.TensorBoard("board")])
for run in ("train", "validation"):
    found = told[run] = {}
    for file in tf.io.gfile.glob(f"board/{run}/*tfevents*"):
        for record in tf.data.TFRecordDataset(file):
            for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value:
                if "gpu_memory" in value.tag:
                    found.setdefault(value.tag, []).append(float(tf.make_ndarray(value.tensor)))
"""
    told, _ = train(tmp_path, body, **on_card(card))
    assert len(told["train"]["epoch_gpu_memory_peak_bytes"]) == 2
    assert told["train"]["epoch_gpu_memory_peak_estimate_bytes"] == [7.0, 7.0]
    assert all(value > 12 * MIB for value in told["validation"]["epoch_gpu_memory_peak_bytes"])
