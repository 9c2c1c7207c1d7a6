"""`MemoryUsage`: what goes into the logs, in every Keras, and that it never breaks training."""

from __future__ import annotations

import copy
import csv
import importlib.util
import json
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuconf.callbacks import MemoryUsage
from gpuconf.callbacks.gauge import DeviceGauge, is_device, short_name
from gpuconf.errors import UsageError
from gpuconf.simcard import bridge_for_command, simulated_card
from tests.programs import warm
from tests.programs.card_clients import STORY
from tests.programs.processes import run, run_python

MIB = 1024**2
ESTIMATE = SimpleNamespace(peak_bytes=7 * MIB)

# A model whose weights and Adam's state take 12 MiB; what to report goes into `values`.
_START = """
import json, sys
from types import SimpleNamespace
import numpy as np
{keras}
from gpuconf.callbacks import MemoryUsage
"""
_MODEL = """
model = keras.Sequential([keras.layers.Input((1024,)), keras.layers.Dense(1024)])
model.compile("adam", "mse")
x, y = np.zeros((64, 1024), "float32"), np.zeros((64, 1024), "float32")
values = {}
"""
_END = """
print("VALUES", json.dumps(values), flush=True)
print("VALUES", file=sys.stderr, flush=True)
"""
_KERAS = {"keras": "import keras", "tf_keras": "import tf_keras as keras"}

# What each part of a program reported, and its stderr.
Reported = Mapping[str, tuple[dict[str, Any], str]]


def train(
    folder: Path, parts: Mapping[str, str], *, keras: str = "keras", **environ: str
) -> Reported:
    """Run the parts in one process; each sees a new ``model``, and ``x``, ``y``, ``values``."""
    program = folder / "program.py"
    bodies = [f"{_MODEL}{body}{_END}" for body in parts.values()]
    program.write_text(_START.format(keras=_KERAS[keras]) + "".join(bodies), encoding="utf-8")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", warm.VARIABLE: "1", **environ}
    done = run([sys.executable, str(program)], folder, environ=quiet, timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("VALUES ")]
    values = [json.loads(line.removeprefix("VALUES ")) for line in lines]
    errors = done.stderr.split("VALUES\n")[:-1]
    return dict(zip(parts, zip(values, errors, strict=True), strict=True))


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
        ("cuda:1", "GPU:1"),
    ],
)
def test_all_names_of_a_device(name: str, short: str) -> None:
    """Each way in which a framework names a device is understood."""
    assert is_device(name)
    assert short_name(name) == short


@pytest.mark.parametrize("device", ["GPU", "0", "", "GPU:", "GPU:-1", 0, "GPU:0,GPU:1"])
def test_a_name_of_no_device_is_refused(device: object) -> None:
    """At once, and not after the first epoch."""
    with pytest.raises(UsageError, match="is not a device") as caught:
        MemoryUsage(device=device)  # type: ignore[arg-type]
    assert caught.value.hint is not None


@pytest.mark.parametrize("estimate", ["GPU:1", 7, SimpleNamespace(peak_bytes=None)])
def test_what_is_no_estimate_is_refused(estimate: Any) -> None:
    """A device in the estimate's place is the likely slip: the hint says how to give one."""
    with pytest.raises(UsageError, match="no peak_bytes") as caught:
        MemoryUsage(estimate)
    assert 'device="GPU:1"' in (caught.value.hint or "")


def test_a_backend_without_memory_to_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Keras on NumPy: one line, and no figure."""
    gauge = DeviceGauge()
    gauge.find(None, type("Model", (), {"__module__": "keras.src.backend.numpy.trainer"})())
    gauge.reset()
    assert gauge.read() == {}
    assert capsys.readouterr().err.count("Keras runs on numpy") == 1


def test_it_can_be_copied_and_pickled() -> None:
    """Tuners copy callbacks for every trial."""
    usage = MemoryUsage(ESTIMATE, device=None)
    for other in (copy.deepcopy(usage), pickle.loads(pickle.dumps(usage))):
        assert other.estimate == ESTIMATE
        assert other.device is None


def test_importing_it_imports_no_framework(tmp_path: Path) -> None:
    """One class serves every Keras; `import gpuconf` is enough for it, and does not load it."""
    code = """
        import sys, gpuconf
        assert "gpuconf.callbacks" not in sys.modules
        print(gpuconf.callbacks.MemoryUsage.__name__)
        print({"tensorflow", "keras", "tf_keras", "numpy"} & set(sys.modules))
        print(gpuconf.batching.forget.__name__)
        """
    assert run_python(code, tmp_path).split() == ["MemoryUsage", "set()", "forget"]


_FIT = """
history = model.fit(x, y, epochs=2, verbose=0, validation_data=(x, y), callbacks=[
    MemoryUsage(SimpleNamespace(peak_bytes=7))])
values = dict(history.history)
"""
_OF_THE_CPU = """
values = model.fit(x, y, verbose=0, callbacks=[MemoryUsage(device="CPU:0")]).history
for device in (None, "TPU:0"):
    model.predict(x, verbose=0, callbacks=[MemoryUsage(device=device)])
"""
_LOST = """
from gpuconf.callbacks.gauge import DeviceGauge
gauge = DeviceGauge()
gauge.find("CPU:0", model)
gauge._devices = ("GPU:7",)  # which TensorFlow has not
gauge.reset()
values["first"] = gauge.read()
values["second"] = gauge.read()
"""


@pytest.fixture(scope="module", params=_KERAS)
def without_a_gpu(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Reported:
    """What becomes of the callback on a machine that has none."""
    parts = {"fit": _FIT, "cpu": _OF_THE_CPU, "lost": _LOST}
    folder = tmp_path_factory.mktemp("without")
    none = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPU_ALLOCATOR_USE_BFC": "true"}
    return train(folder, parts, keras=request.param, **none)


@pytest.mark.slow
def test_without_a_gpu_the_training_goes_on(without_a_gpu: Reported) -> None:
    """One line says why nothing is measured, and the logs are as without the callback."""
    values, stderr = without_a_gpu["fit"]
    assert sorted(values) == ["loss", "val_loss"]
    said = [line for line in stderr.splitlines() if line.startswith("gpuconf: ")]
    assert len(said) == 1
    assert "uses no GPU here" in said[0]
    assert "gpuconf doctor" in said[0]


@pytest.mark.slow
def test_the_names_of_the_figures_say_whose_they_are(without_a_gpu: Reported) -> None:
    """The CPU's, whose allocator counts where the variable makes it the one that GPUs have.

    Of devices that are not there one line says so.
    """
    values, stderr = without_a_gpu["cpu"]
    assert set(values) == {"loss", "cpu_memory_current_bytes", "cpu_memory_peak_bytes"}
    assert stderr.count("MemoryUsage: TensorFlow uses no GPU here; `gpuconf doctor`") == 1
    assert stderr.count("MemoryUsage: TensorFlow has no TPU:0, only CPU:0;") == 1


@pytest.mark.slow
def test_what_tensorflow_does_not_tell_breaks_nothing(without_a_gpu: Reported) -> None:
    """A device that is lost, or whose allocator keeps no count: reported once."""
    values, stderr = without_a_gpu["lost"]
    assert values == {"first": {}, "second": {}}
    assert stderr.count("does not count the memory of GPU:7 (ValueError") == 1


_EPOCHS = """
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
values = {**history.history, "own": Own.current}
"""
_EVALUATE = """
class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise RuntimeError("of the test")
usage = MemoryUsage()
try:
    model.fit(x, y, verbose=0, callbacks=[usage, Stop()])
except RuntimeError:
    pass
values["after the error"] = dict(usage.last)
values["evaluate"] = float(model.evaluate(x, y, verbose=0, callbacks=[usage]))
values["evaluated"] = dict(usage.last)
values["rows"] = len(model.predict(x, verbose=0, callbacks=[usage]))
values["predicted"] = dict(usage.last)
for device in ("GPU:2", "/device:gpu:1"):
    model.predict(x, verbose=0, callbacks=[MemoryUsage(device=device)])
"""
_BOARD = """
import tensorflow as tf
model.fit(x, y, epochs=2, verbose=0, validation_data=(x, y), callbacks=[
    MemoryUsage(SimpleNamespace(peak_bytes=7)), keras.callbacks.TensorBoard("board")])
for run in ("train", "validation"):
    found = values[run] = {}
    for file in tf.io.gfile.glob(f"board/{run}/*tfevents*"):
        for record in tf.data.TFRecordDataset(file):
            for value in tf.compat.v1.Event.FromString(record.numpy()).summary.value:
                if "gpu_memory" in value.tag:
                    found.setdefault(value.tag, []).append(float(tf.make_ndarray(value.tensor)))
"""
_ALONE = """
usage = MemoryUsage(SimpleNamespace(peak_bytes=7), device=None)
values = model.fit(x, y, verbose=0, callbacks=[usage]).history
"""
_MIRRORED = f"""
reduce = tf.distribute.HierarchicalCopyAllReduce()
with tf.distribute.MirroredStrategy(cross_device_ops=reduce).scope():
    model = keras.Sequential([keras.layers.Input((1024,)), keras.layers.Dense(1024)])
    model.compile("adam", "mse")
{_ALONE}
"""


@pytest.fixture(
    scope="module", params=["keras", pytest.param("tf_keras", marks=pytest.mark.nightly)]
)
def on_a_card(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, libraries: Path
) -> tuple[Reported, Path]:
    """What the callback measures on two GPUs, and the folder in which it was."""
    del libraries  # for its skip
    folder = tmp_path_factory.mktemp("on_card")
    parts = {"epochs": _EPOCHS, "evaluate": _EVALUATE, "alone": _ALONE, "mirrored": _MIRRORED}
    if importlib.util.find_spec("tensorboard") is not None:
        parts["board"] = _BOARD
    bridge = bridge_for_command([sys.executable])
    with simulated_card(STORY._replace(count=2)) as card:
        environ = card.environment({}, bridge=bridge)
        return train(folder, parts, keras=request.param, **environ), folder


@pytest.mark.slow
def test_epochs_on_a_card(on_a_card: tuple[Reported, Path]) -> None:
    """What follows in ``callbacks`` sees figures that are TensorFlow's own, in every epoch.

    History and CSVLogger keep them; one that stands before does not have them.  The validation's
    batch is a hundred times the training's, and so its peak is the higher, in its own column alone.
    """
    parts, folder = on_a_card
    values, stderr = parts["epochs"]
    assert "MemoryUsage" not in stderr
    current, peak = values["gpu_memory_current_bytes"], values["gpu_memory_peak_bytes"]
    assert current == values["own"]
    assert all(isinstance(figure, float) for figure in (*current, *peak)), "as Keras expects"
    assert values["gpu_memory_peak_estimate_bytes"] == [7.0, 7.0]
    assert all(12 * MIB < now < 40 * MIB for now in current)
    assert all(now < most < 40 * MIB for now, most in zip(current, peak, strict=True))
    assert all(most > 70 * MIB for most in values["val_gpu_memory_peak_bytes"])
    before = (folder / "before.csv").read_text().splitlines()[0]
    assert "gpu_memory" not in before
    with (folder / "after.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["gpu_memory_peak_bytes"]) for row in rows] == peak
    assert [float(row["gpu_memory_peak_estimate_bytes"]) for row in rows] == [7.0, 7.0]


@pytest.mark.slow
def test_evaluate_and_predict(on_a_card: tuple[Reported, Path]) -> None:
    """Their figures are in ``last``; what they return is as without the callback.

    After a training run that an exception ended in the middle of an epoch, too. The device may be
    chosen, and one that is not there is named.
    """
    values, stderr = on_a_card[0]["evaluate"]
    assert stderr.count("TensorFlow has no GPU:2, only CPU:0, GPU:0, GPU:1;") == 1
    assert stderr.count("reports no bytes on GPU:1") == 1
    assert values["after the error"] == {}
    assert values["rows"] == 64
    for name in ("evaluated", "predicted"):
        assert set(values[name]) == {"gpu_memory_current_bytes", "gpu_memory_peak_bytes"}
        assert 0 < values[name]["gpu_memory_current_bytes"] <= values[name]["gpu_memory_peak_bytes"]


@pytest.mark.slow
def test_tensorboard_shows_them(on_a_card: tuple[Reported, Path]) -> None:
    """They are scalars of the training's run, and the validation's peak of the other run."""
    if "board" not in on_a_card[0]:
        pytest.skip("tensorboard is not installed; TensorFlow's wheel brings it before 2.20")
    values, _ = on_a_card[0]["board"]
    assert len(values["train"]["epoch_gpu_memory_peak_bytes"]) == 2
    assert values["train"]["epoch_gpu_memory_peak_estimate_bytes"] == [7.0, 7.0]
    assert all(value > 12 * MIB for value in values["validation"]["epoch_gpu_memory_peak_bytes"])


@pytest.mark.slow
def test_several_gpus(on_a_card: tuple[Reported, Path]) -> None:
    """Under MirroredStrategy both replicas are measured, under names of their own; the estimate is
    of each.

    A GPU that a training run does not use is left out with one line: 0 would be no measurement.
    """
    values, stderr = on_a_card[0]["alone"]
    assert values["gpu_memory_peak_bytes_gpu0"][0] > 12 * MIB
    assert "gpu_memory_peak_bytes_gpu1" not in values
    assert stderr.count("reports no bytes on GPU:1") == 1
    values, _ = on_a_card[0]["mirrored"]
    names = ("current_bytes_gpu0", "current_bytes_gpu1", "peak_bytes_gpu0", "peak_bytes_gpu1")
    told = {f"gpu_memory_{name}" for name in (*names, "peak_estimate_bytes")}
    assert set(values) == {"loss", *told}
    for number in (0, 1):
        assert values[f"gpu_memory_peak_bytes_gpu{number}"][0] > 12 * MIB
