"""Whole scripts on the simulated GPU: every loop is cut short, and what is saved is diverted."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpuconf.commands.rehearse.runs import RunResult
from gpuconf.commands.rehearse.verdict import verdict_of
from tests.commands.rehearse.programs import rehearse_script

pytestmark = pytest.mark.slow
# Scripts whose loops are cut start fresh: a fork of the warm process compiles them itself.
if find_spec("tensorflow") is None:  # to import it would cost every run of pytest seven seconds
    pytest.skip("tensorflow is not installed", allow_module_level=True)

# All ways to train in one program; what it has counted stands in its last lines of output.
WHOLE = """
import os, subprocess, sys
import keras, numpy as np, tensorflow as tf
from helper import rows

layers, here = keras.layers, os.path.dirname(os.path.abspath(__file__))
x, y = np.ones((650, 8), "float32"), np.zeros((650, 1), "float32")
assert rows(x) == 650  # a loop that trains nothing runs in full
model = keras.Sequential([layers.Input((8,)), layers.Dense(16), layers.Dense(1)])
model.compile("adam", "mse")
saving = keras.callbacks.ModelCheckpoint(os.path.join(here, "best.keras"))
history = model.fit(x, y, epochs=9, validation_split=0.2, callbacks=[saving], verbose=0)
model.evaluate(x, y, batch_size=100, verbose=0)
predicted = model.predict(tf.data.Dataset.from_tensor_slices(x).batch(100), verbose=0)
print("told", len(history.history["val_loss"]), predicted.shape)

losses = []
for width in (4, 5, 6, 7):
    other = keras.Sequential([layers.Input((8,)), layers.Dense(width), layers.Dense(1)])
    other.compile("sgd", "mse")
    losses.append(other.fit(x, y, epochs=3, verbose=0).history["loss"][0])
print("models", len(losses))

makes = keras.Sequential([layers.Input((2,)), layers.Dense(8)])
judges = keras.Sequential([layers.Input((8,)), layers.Dense(1)])
pairs = ((keras.optimizers.Adam(), makes), (keras.optimizers.Adam(), judges))

@tf.function
def train_step(batch):
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(judges(makes(batch[:, :2])) - judges(batch))
    for optimizer, net in pairs:
        weights = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))

data = tf.data.Dataset.from_tensor_slices(x).batch(10)
turns = [0, 0, 0]
for epoch in range(100):
    turns[0] += 1
    for batch in data:
        turns[1] += 1
        train_step(batch)
    for number, batch in enumerate(data):
        turns[2] += 1
        judges(batch)
print("turns", *turns)

seldom, turn = keras.optimizers.SGD(), 0
while turn < 1000:
    turn += 1
    for optimizer, net in pairs if turn % 2 else pairs[1:]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(judges(makes(x[:9, :2])))
        weights = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
print("while", turn)

for path in ("good.keras", "good.weights.h5"):
    getattr(model, "save_weights" if "h5" in path else "save")(os.path.join(here, path))
assert keras.models.load_model(os.path.join(here, "good.keras")).count_params() > 100
checkpoint = tf.train.Checkpoint(model=model)
manager = tf.train.CheckpointManager(checkpoint, os.path.join(here, "checkpoints"), max_to_keep=1)
assert manager.save() and manager.save() and checkpoint.restore(manager.latest_checkpoint)
tf.saved_model.save(model, os.path.join(here, "exported"))
assert tf.saved_model.load(os.path.join(here, "exported"))
os.remove(os.path.join(here, "old.txt"))
assert not os.path.exists(os.path.join(here, "old.txt"))
print("saved", flush=True)
subprocess.run([sys.executable, "-c", f"open({here!r} + '/uploaded', 'w')"])
print("never")
"""

HELPER = """
def rows(data):
    count = 0
    for _ in data:
        count += 1
    return count
"""

COMMAND_LINE = """
import numpy as np, keras
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
for _ in range(100):
    model.train_on_batch(np.ones((4, 2)), np.ones((4, 1)))
open("went_on", "w")
"""


def _steps(done: RunResult) -> list[tuple[Any, ...]]:
    return [
        (each["kind"], each["batch"], each["steps"], each["of"], each["is_cut"])
        for each in done.trainer["phases"]
    ]


def test_a_whole_script(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All trainings, a validation, first and last batches; no file of the user's is touched."""
    files = {"good.keras": "a good model", "good.weights.h5": "good", "old.txt": "old"}
    files |= {"train.py": WHOLE, "helper.py": HELPER}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = rehearse_script(tmp_path, str(tmp_path / "train.py"), is_shown=True)
    said = capfd.readouterr().err
    for line in ("told 1 (650, 1)", "models 4", "turns 2 4 6", "while 5", "saved"):
        assert line in said.splitlines(), said[-3000:]
    assert "never" not in said

    trainer = done.trainer
    place = WHOLE.splitlines().index('print("never")')
    assert (done.code, trainer["ended"]) == (None, "steps")
    assert trainer["ended_at"] == f"{tmp_path / 'train.py'}:{place}"
    assert [each["what"].split()[0] for each in trainer["not_run"]] == ["starting"]
    kinds = _steps(done)
    assert kinds[:3] == [
        *(("build", None, 0, None, False), ("train", 32, 3, 17 * 9, True)),
        ("validate", 32, 1, 1, False),
    ]
    assert ("evaluate", 100, 2, 7, True) in kinds
    assert ("predict", 100, 2, 7, True) in kinds
    assert kinds.count(("train", 32, 3, 21 * 3, True)) == 4
    trained = [each["what"] for each in trainer["phases"] if each["kind"] == "train"]
    assert trained[5:] == ["train_step", "a loop"]
    assert any(each["kind"] == "validate" and each["is_cut"] for each in trainer["phases"])
    assert done.tape is not None
    marks = {mark.text for mark in done.tape.marks}
    assert {f"phase {each['number']}" for each in trainer["phases"][1:]} <= marks

    left = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir() if path.is_file()}
    assert left == files
    assert not {"__pycache__", "checkpoints", "exported"} & set(os.listdir(tmp_path))
    diverted = {Path(each).name for each in trainer["diverted"]}
    assert {"best.keras", "good.keras", "good.weights.h5", "exported"} <= diverted
    assert verdict_of(done).answer == "fits"


@pytest.mark.usefixtures("warm_programs")
def test_a_loop_that_cannot_be_cut(tmp_path: Path) -> None:
    """Code that is in no file runs as it is: after its steps all is ended where it stands."""
    done = rehearse_script(tmp_path, "-c", COMMAND_LINE)
    assert (done.code, done.trainer["ended"], done.trainer["steps"]) == (None, "steps", 3)
    assert done.trainer["ended_at"] == "<string>:6"
    (left_out,) = done.trainer["not_run"]
    assert left_out["what"] == "everything after <string>:6"
    assert verdict_of(done).answer == "fits"
