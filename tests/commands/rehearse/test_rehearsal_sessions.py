"""TensorFlow 1's sessions on the simulated GPU: what trains is counted, the rest is not."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuconf.basics.units import MIB
from gpuconf.commands.rehearse.breakdown import (
    BACKWARD,
    SLOTS,
    UPDATE,
    WEIGHTS,
    devices_of,
    total_bytes,
)
from gpuconf.commands.rehearse.phases import phases_of
from gpuconf.commands.rehearse.runs import Orders, RunResult
from gpuconf.commands.rehearse.verdict import verdict_of
from tests.commands.rehearse.programs import rehearse_script
from tests.programs.processes import run_python

pytestmark = pytest.mark.slow
# Scripts whose loops are cut start fresh: a fork of the warm process compiles them itself.
if find_spec("tensorflow") is None:  # to import it would cost every run of pytest seven seconds
    pytest.skip("tensorflow is not installed", allow_module_level=True)

# Of the shape of the first examples that everybody began with; and all other ways to train, one
# after the other in the same process.
DIGITS = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()

images = np.random.rand(2000, 784).astype("float32")
labels = np.eye(10, dtype="float32")[np.random.randint(0, 10, 2000)]
batch_size = int(sys.argv[1])
X, Y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.float32, [None, 10])
keep = tf.placeholder(tf.float32)
hidden = tf.Variable(tf.random_normal([784, 1024], stddev=0.01))
out = tf.Variable(tf.random_normal([1024, 10], stddev=0.01))
logits = tf.matmul(tf.nn.dropout(tf.nn.relu(tf.matmul(X, hidden)), keep_prob=keep), out)
loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=Y))
train_op = tf.train.AdamOptimizer(0.01).minimize(loss)
right = tf.equal(tf.argmax(logits, 1), tf.argmax(Y, 1))
accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(200):
        chosen = np.random.randint(0, 2000, batch_size)
        feed = {keep: 0.75, X: images[chosen], Y: labels[chosen]}
        sess.run(train_op, feed_dict=feed)
        print("step", step, sess.run([loss, accuracy], feed_dict=feed))
    saver = tf.train.Saver()
    saver.save(sess, "model/digits.ckpt")
    sess.run(tf.global_variables_initializer())
    saver.restore(sess, tf.train.latest_checkpoint("model"))
    sess.run(accuracy, feed_dict={keep: 1.0, X: images, Y: labels})

with tf.Graph().as_default():
    data = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().batch(50)
    x, y = tf.data.make_one_shot_iterator(data).get_next()
    w = tf.get_variable("w", [784, 10])
    loss = tf.losses.softmax_cross_entropy(y, tf.matmul(x, w))
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    hooks = [tf.train.StopAtStepHook(last_step=200), tf.train.NanTensorHook(loss),
             tf.train.LoggingTensorHook([loss], every_n_iter=2)]
    with tf.train.MonitoredTrainingSession(checkpoint_dir="monitored", hooks=hooks) as sess:
        while not sess.should_stop():
            sess.run(train)

with tf.Graph().as_default(), tf.Session() as sess:
    one, label = tf.train.slice_input_producer([tf.constant(images), tf.constant(labels)])
    x, y = tf.train.batch([one, label], batch_size=20)
    w = tf.get_variable("w", [784, 10])
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.losses.mean_squared_error(y, x @ w))
    sess.run(tf.global_variables_initializer())
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coordinator)
    call = sess.make_callable(train)
    try:
        while not coordinator.should_stop():
            call()
    except tf.errors.OutOfRangeError:
        print("never")
    finally:
        coordinator.request_stop()
        coordinator.join(threads)
print("to the end")
"""

# A graph for each kind of run: the agent's own question, asked of all of them in one process.
KINDS = """
import numpy as np, sys
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
from gpuconf.support.keras_api import sessions

x = tf.placeholder(tf.float32, [None, 4])
w = tf.get_variable("w", [4, 1])
normed = tf.nn.batch_normalization(x, tf.reduce_mean(x, 0), 1.0, None, None, 0.1)
mean = tf.get_variable("mean", [4], trainable=False)
moving = tf.assign_sub(mean, 0.1 * (mean - tf.reduce_mean(x, 0)))
loss = tf.reduce_sum(tf.matmul(normed, w) ** 2)
(slope,) = tf.gradients(loss, [w])
train = tf.train.AdamOptimizer().minimize(loss)
with tf.control_dependencies([train]):
    tied = tf.identity(loss)

class Own(tf.train.Optimizer):
    def apply_gradients(self, pairs, global_step=None, name=None):
        return tf.group(*(v.assign(v - 0.1 * g) for g, v in pairs), name=name)

held = tf.get_variable("held", [4, 1], use_resource=True)
table = tf.get_variable("table", [8, 4])
looked_up = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 2]) ** 2)
trains = {
    "an optimizer": train, "in a group": tf.group(train, moving), "tied to a loss": tied,
    "by name": [train.name], "by hand": tf.assign_sub(w, 0.1 * slope),
    "one of one's own": Own(False, "own").minimize(loss, var_list=[w]),
    "of a resource": tf.train.RMSPropOptimizer(0.1).minimize(tf.reduce_sum(held ** 2)),
    "of rows": tf.train.AdagradOptimizer(0.1).minimize(looked_up),
}
calls = {"loss": loss, "gradients": slope, "both": [loss, moving], "statistics": moving}
others = {
    "init": tf.global_variables_initializer(), "weights": [w, table], "data": x, "nothing": [],
    "a counter": tf.assign_add(tf.train.get_or_create_global_step(), 1),
}
graph = tf.get_default_graph()
def kind(fetches): return sessions.run_of(sessions.elements_of(graph, fetches)).kind
assert {kind(trains[name]) for name in trains} == {"training"}
assert {name for name in others if kind(others[name]) != "other"} == set()
assert {kind(calls[name]) for name in calls} == {"call"}
written = tf.train.export_meta_graph()
with tf.Graph().as_default() as graph:
    tf.train.import_meta_graph(written)
    assert (kind([train.name]), kind([loss.name])) == ("training", "call")

with tf.Graph().as_default() as graph:
    inner = tf.get_variable("inner", [4], use_resource=True)
    @tf.function
    def step():
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        with tf.control_dependencies([optimizer.apply_gradients([(inner * 2.0, inner)])]):
            return tf.constant(1.0)
    assert kind(step()) == "training"
print("asked")
"""

MONITORED = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [None, 1024], name="x")
w = tf.get_variable("w", [1024, 4096])
loss = tf.reduce_mean(tf.nn.relu(tf.matmul(x, w, name="hidden")) ** 2)
step = tf.train.get_or_create_global_step()
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
hooks = [tf.train.StopAtStepHook(last_step=50), tf.train.NanTensorHook(loss)]
turn = 0
with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
    while not sess.should_stop():
        turn += 1
        rows = 16 if turn < 3 else 40000
        sess.run(train, feed_dict={x: np.ones((rows, 1024), "float32")})
"""


def _rehearsed(folder: Path, program: str, *words: str, whole: bool = True) -> RunResult:
    script = folder / "train.py"
    script.write_text(program, encoding="utf-8")
    orders = Orders(whole=whole)
    return rehearse_script(folder, str(script), *words, orders=orders, total=900 * MIB)


def test_every_session_is_cut_after_three_steps(tmp_path: Path) -> None:
    """The optimizer's runs are steps; all images at once are a call, with its peak; nothing is
    saved over what is there."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "checkpoint").write_text("mine", encoding="utf-8")
    done = _rehearsed(tmp_path, DIGITS, "128")
    assert (done.code, done.trainer["ended"]) == (0, "exit"), done.stderr[-3000:]
    assert verdict_of(done).answer == "fits"
    phases = phases_of(done)
    trained = [phase for phase in phases if phase.kind == "train"]
    assert [(phase.what, phase.steps, phase.batch) for phase in trained] == [
        ("sess.run of Adam", 3, 128),
        ("sess.run of GradientDescent", 3, None),
        ("sess.run of Momentum", 3, None),
    ]
    assert all(phase.is_cut for phase in trained)
    beside, judged = (phase for phase in phases if phase.kind == "call")
    assert (beside.batch, judged.batch) == (128, 2000)
    assert beside.peak_bytes is not None
    assert judged.peak_bytes is not None
    assert judged.peak_bytes > beside.peak_bytes + 1800 * 784 * 4
    assert {path.name for path in tmp_path.rglob("*")} >= {"model", "checkpoint", "train.py"}
    assert (tmp_path / "model" / "checkpoint").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["checkpoint"]
    assert not (tmp_path / "monitored").exists()
    assert any(name.endswith("digits.ckpt") for name in done.trainer["diverted"])


@pytest.mark.usefixtures("warm_programs")
def test_the_first_three_steps_alone(tmp_path: Path) -> None:
    """All ends after them; weights and optimizer state are known, and the peak is a sum."""
    done = _rehearsed(tmp_path, DIGITS, "128", whole=False)
    assert done.trainer.get("steps") == 3, done.stderr[-3000:]
    assert verdict_of(done).answer == "fits"
    batch = done.trainer["batch"]
    assert (batch["kind"], batch["own"], batch["used"]) == ("session", 128, 128)
    (device,) = devices_of(done)
    weights = (784 * 1024 + 1024 * 10) * 4
    assert total_bytes(device.rows, WEIGHTS) == weights
    assert 2 * weights <= total_bytes(device.rows, SLOTS) <= 2 * weights + 1024
    named = sum(total_bytes(device.rows, what) for what in (WEIGHTS, SLOTS, BACKWARD, UPDATE))
    assert named > device.peak_bytes / 2
    assert sum(row.size_bytes for row in device.rows) == device.peak_bytes
    assert done.tape is not None
    marks = [mark.text for mark in done.tape.marks if "step" in mark.text]
    assert marks == [f"{when}step {n}" for n in (1, 2, 3) for when in ("", "after ")]


@pytest.mark.usefixtures("warm_programs")
def test_which_runs_train(tmp_path: Path) -> None:
    """TensorFlow's optimizers and those of one's own, however they are fetched; nothing else."""
    assert run_python(KINDS, tmp_path).splitlines()[-1] == "asked"


@pytest.mark.usefixtures("warm_programs")
def test_a_monitored_session_that_runs_out_of_memory(tmp_path: Path) -> None:
    """The error of the third step is TensorFlow's own, with the operation and the tensor."""
    done = _rehearsed(tmp_path, MONITORED)
    assert done.trainer.get("steps") == 2, done.stderr[-3000:]
    verdict = verdict_of(done)
    assert verdict.answer == "does not fit"
    assert verdict.because.startswith(
        "out of GPU memory in step 3 of sess.run of GradientDescent at "
    )
    assert verdict.failure is not None
    assert verdict.failure.node == "hidden"
    assert verdict.failure.shape == (40000, 4096)
    assert done.trainer["batch"]["used"] == 40000
