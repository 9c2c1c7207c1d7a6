"""Real programs of every kind on the simulated GPU: their steps are counted, and then they end."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.rehearse.breakdown import devices_of
from gpuconf.commands.rehearse.rehearse import Rehearsal, rehearse
from gpuconf.commands.rehearse.runs import Orders, RunResult
from gpuconf.commands.rehearse.verdict import verdict_of
from gpuconf.simcard import CardSpec
from tests.commands.rehearse.programs import rehearse_script

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_programs")]
if find_spec("tensorflow") is None:  # to import it would cost every run of pytest seven seconds
    pytest.skip("tensorflow is not installed", allow_module_level=True)

# One program for all ways to train; `went_on` shows that something ran after the steps.
PROGRAM = """
import atexit, os, sys
if os.environ.get("TF_USE_LEGACY_KERAS") == "1":
    import tf_keras as keras
else:
    import keras
import numpy as np, tensorflow as tf

kind, batch = sys.argv[1], int(sys.argv[2])
folder = os.path.dirname(os.path.abspath(__file__))
def went_on(): open(os.path.join(folder, "went_on"), "w").close()
atexit.register(went_on)

policy = "mixed_float16" if kind == "mixed" else "float32"
keras.mixed_precision.set_global_policy(policy)
strategy = tf.distribute.MirroredStrategy() if kind == "mirrored" else tf.distribute.get_strategy()
with strategy.scope():
    model = keras.Sequential([
        keras.layers.Input((16, 16, 8)),
        keras.layers.Conv2D(32, 3, activation="relu", name="first"),
        keras.layers.Conv2D(32, 3, name="second"),
        keras.layers.Flatten(),
        keras.layers.Dense(4, name="last"),
    ])
    model.compile("adam", "mse", run_eagerly=kind == "eager_fit",
                  steps_per_execution=2 if kind == "several" else 1)
x, y = np.ones((640, 16, 16, 8), "float32"), np.zeros((640, 4), "float32")
optimizer = keras.optimizers.SGD(0.01)

@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

def generate():
    while True:
        yield x[:batch], y[:batch]

class Pieces(getattr(keras.utils, "PyDataset", None) or keras.utils.Sequence):
    def __len__(self): return 640 // batch
    def __getitem__(self, i): return x[i * batch:(i + 1) * batch], y[i * batch:(i + 1) * batch]

try:
    if kind in ("mixed", "eager_fit", "several", "mirrored"):
        model.fit(x, y, batch_size=batch, verbose=2)
    elif kind == "dataset":
        model.fit(tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64).batch(batch), verbose=2)
    elif kind == "generator":
        model.fit(generate(), steps_per_epoch=10, verbose=2)
    elif kind == "sequence":
        model.fit(Pieces(), verbose=2)
    elif kind == "single":
        for _ in range(10): model.train_on_batch(x[:batch], y[:batch])
    else:
        for _ in range(10): step(tf.constant(x[:batch]), tf.constant(y[:batch]))
finally:
    went_on()
"""

Run = Callable[..., RunResult]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """A folder with the program, and ``run(kind, batch, orders, …)`` on a GPU of its own."""
    folder = tmp_path_factory.mktemp("programs")
    script = folder / "train.py"
    script.write_text(PROGRAM, encoding="utf-8")

    def run(kind: str, batch: int, orders: Orders, **options: Any) -> RunResult:
        (folder / "went_on").unlink(missing_ok=True)
        count = 2 if kind == "mirrored" else 1
        words = (str(script), kind, str(batch))
        return rehearse_script(folder, *words, orders=orders, count=count, **options)

    return folder, run


@pytest.mark.parametrize(
    ("kind", "data", "legacy"),
    [
        ("dataset", "tf.data", "0"),
        ("generator", "generator", "1"),
        ("sequence", "sequence", "0"),
        ("single", "train_on_batch", "1"),
        pytest.param("eager_fit", "arrays", "0", marks=pytest.mark.nightly),
        pytest.param("mixed", "arrays", "1", marks=pytest.mark.nightly),
        ("mirrored", "arrays", "0"),
        ("loop", None, "0"),
    ],
)
def test_every_way_to_train(
    stage: tuple[Path, Run], kind: str, data: str | None, legacy: str
) -> None:
    """Two steps are counted, the batch is halved on its way in, and nothing runs after them."""
    folder, run = stage
    done = run(kind, 32, Orders(steps=2, batch=16, whole=False), TF_USE_LEGACY_KERAS=legacy)
    assert done.trainer.get("steps") == 2, done.stderr[-3000:]
    assert verdict_of(done).answer == "fits"
    assert not (folder / "went_on").exists()
    batch = done.trainer.get("batch") or {}
    assert batch.get("kind") == data
    assert (batch.get("own"), batch.get("used")) == ((32, 16) if data else (None, None))
    device = devices_of(done)[0]
    assert 0 < device.peak_bytes < device.limit_bytes
    assert device.held_bytes is not None
    assert device.held_bytes >= device.limit_bytes  # all is taken at once, without growth
    assert sum(row.size_bytes for row in device.rows) == device.peak_bytes
    forward = {row.layer for row in device.rows if row.what in ("forward", "backward")}
    if kind != "eager_fit":
        assert forward & {"first", "second"}
    assert {"weights", "optimizer state"} <= {row.what for row in device.rows} or "loop" in kind
    assert len(devices_of(done)) == (2 if kind == "mirrored" else 1)
    notes = "".join(done.trainer["notes"])
    assert ("HierarchicalCopyAllReduce" in notes) == (kind == "mirrored")


def test_several_steps_in_one_call(stage: tuple[Path, Run]) -> None:
    """steps_per_execution=2: three are requested, four are done, and four are told."""
    _, run = stage
    done = run("several", 32, Orders(steps=3, whole=False))
    assert done.trainer["steps"] == 4


@pytest.fixture(scope="module")
def halves(stage: tuple[Path, Run]) -> tuple[Rehearsal, bool]:
    """Batches of 640 on a small GPU, and whether something ran after its first run's steps.

    TensorFlow keeps 225 MiB of less than 2 GiB for itself, and waits 10 s before it runs out.
    """
    folder, run = stage
    went_on: list[bool] = []

    def once(command: list[str], orders: Orders, **_: object) -> RunResult:
        done = run(command[0], int(command[1]), orders, total=288 * MIB)
        went_on.append((folder / "went_on").exists())
        return done

    options: dict[str, Any] = {"spec": CardSpec(total_bytes=288 * MIB), "card": None, "environ": {}}
    options |= {"run": once, "other_batches": "where it does not fit"}
    return rehearse(["generator", "640"], Orders(), **options), went_on[0]


def test_out_of_memory_is_explained(halves: tuple[Rehearsal, bool]) -> None:
    """The failing operation of a layer, with its shape and bytes; the trace until then is whole."""
    rehearsal, went_on = halves
    done = rehearsal.first
    verdict = verdict_of(done)
    assert (verdict.answer, verdict.exit_code) == ("does not fit", 1), done.stderr[-3000:]
    failure = verdict.failure
    assert failure is not None
    assert "OOM when allocating tensor" in failure.message
    assert failure.asked_bytes is not None
    assert failure.shape is not None
    # It failed by itself, and ended as it does; what it wrote meanwhile is not where it said.
    assert not went_on
    assert [Path(each).name for each in done.trainer["diverted"]] == ["went_on"]
    assert done.tape is not None
    assert done.tape.is_whole
    device = devices_of(done)[0]
    assert device.limit_bytes == 63 * MIB
    assert device.peak_bytes + failure.asked_bytes > device.limit_bytes


def test_halves_are_tried_until_one_fits(halves: tuple[Rehearsal, bool]) -> None:
    """A batch that does not fit is halved; what is suggested stays below it, and was run, and fits.

    The batch that is ordered is the one whose memory is measured.
    """
    done, _ = halves
    assert done.verdict.answer == "does not fit"
    assert done.measurements
    assert done.suggestion is not None
    batch = done.suggestion.batch
    assert batch is not None
    # A measured batch that fits by a hair is not a suggestion: the margin is kept.
    assert 160 <= batch < 640
    assert done.suggestion.measured_bytes == dict(done.measurements)[batch]
    assert done.suggestion.measured_bytes <= 63 * MIB
    first_layer_bytes = 14 * 14 * 32 * 4  # an example's activations, which backward needs
    assert all(point.peak_bytes > point.batch * first_layer_bytes for point in done.measurements)
