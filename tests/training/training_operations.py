"""Whole small programs: optimizers, accumulation, input pipelines, saving, sessions."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from typing import Any

import numpy as np

from tests.training.lazily import keras, tf
from tests.training.operation_case import SEED, Operation, Outputs

_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD, Nesterov": {"momentum": 0.9, "nesterov": True},
    "RMSprop, centred": {"centered": True, "momentum": 0.5},
    "Adam, amsgrad": {"amsgrad": True},
    "Ftrl": {"l1_regularization_strength": 0.01},
    "Lion": {},
    "Lamb": {},
    "Adafactor": {},
    "Adam, moving average": {"use_ema": True, "ema_overwrite_frequency": 2},
    "Adam, accumulation": {"gradient_accumulation_steps": 2},
}


def _data() -> tuple[Any, Any]:
    random = np.random.default_rng(SEED)
    x = random.standard_normal((24, 6)).astype("float32")
    return x, (x[:, :2] * 2 + x[:, 2:4]).astype("float32")


def _network() -> Any:
    keras.utils.set_random_seed(SEED)
    return keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(9, activation="tanh"), keras.layers.Dense(2)]
    )


def _weights(model: Any) -> Outputs:
    """Each weight: as the tensor it is, so that its device can be seen."""
    return {f"weight {n}": tf.identity(v.value) for n, v in enumerate(model.variables)}


def _optimized(name: str, options: dict[str, Any]) -> Outputs:
    model = _network()
    optimizer = getattr(keras.optimizers, name.split(",", maxsplit=1)[0])(**options)
    x, y = (tf.constant(each) for each in _data())

    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        sources = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [v.value for v in sources]), sources)
        return loss

    in_a_graph = tf.function(step)
    losses = tf.stack([in_a_graph() for _ in range(5)])
    return {"losses": losses, **_weights(model)}


def _sparse(name: str) -> Outputs:
    """An embedding's gradient is IndexedSlices with a repeated row."""
    keras.utils.set_random_seed(SEED)
    layer = keras.layers.Embedding(9, 4)
    layer.build()
    optimizer = getattr(keras.optimizers, name)(0.1)
    for _ in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tf.constant([[1, 3, 1], [8, 1, 0]])) ** 2)
        optimizer.apply(tape.gradient(loss, [layer.embeddings.value]), layer.trainable_variables)
    return {"embeddings": tf.identity(layer.embeddings.value), "loss": loss}


def _pipeline() -> Outputs:
    """tf.data with a seeded shuffle, put on the device ahead of time, into ``fit``."""
    model = _network()
    model.compile("adam", "mse", metrics=["mae"])
    data = tf.data.Dataset.from_tensor_slices(_data()).shuffle(24, seed=5).repeat(2).batch(5)
    if tf.config.list_logical_devices("GPU"):
        data = data.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))
    history = model.fit(data, verbose=0)
    seen = {f"history {key}": np.array(value) for key, value in history.history.items()}
    return {**seen, **_weights(model)}


def _restored() -> Outputs:
    """Read back from a checkpoint into another model, and trained on."""
    model, (x, y) = _network(), _data()
    model.compile("rmsprop", "mse", jit_compile=False)
    model.fit(x, y, batch_size=8, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "saved")
        tf.train.Checkpoint(weights=[v.value for v in model.variables]).write(path)
        again = _network()
        tf.train.Checkpoint(weights=[v.value for v in again.variables]).read(path)
        after = again(x)
    assert np.array_equal(model(x).numpy(), after.numpy()), "what was loaded is not what was saved"
    again.compile("adam", "mse")
    again.fit(x, y, verbose=0)
    return {"after": after, "trained on": again(x)}


def _variables() -> Outputs:
    x = tf.Variable(tf.range(20.0, dtype="float32")[:, None] * tf.ones([1, 3]))
    x.assign_add(tf.ones([20, 3])).assign_sub(tf.ones([20, 3]) * 3)
    x.scatter_nd_update([[1], [5]], tf.zeros([2, 3]))
    x.scatter_add(tf.IndexedSlices(tf.ones([3, 3]), tf.constant([2, 2, 19])))
    x.scatter_sub(tf.IndexedSlices(tf.ones([2, 3]), tf.constant([0, 7])))
    x.scatter_update(tf.IndexedSlices(tf.ones([1, 3]) * 9, tf.constant([3])))
    x.scatter_max(tf.IndexedSlices(tf.ones([1, 3]) * 7, tf.constant([4])))
    x[6:8].assign(tf.ones([2, 3]) * -1)
    count = tf.Variable(3, dtype="int64")
    count.assign_add(4)
    read = x.sparse_read([1, 2, 2])
    return {"values": tf.identity(x), "read": read, "count": np.array(count.numpy())}


def _generator() -> Outputs:
    generator = tf.random.Generator.from_seed(SEED)
    first = generator.normal([700])
    other = generator.split(2)[1].uniform([70], 0, 99, "int32")
    return {"normal": first, "uniform": generator.uniform([77]), "other": other.numpy()}


def _in_a_session() -> Outputs:
    """Version 1: a graph, a session, a while loop, an optimizer made of raw operations."""
    v1 = tf.compat.v1
    random = np.random.default_rng(SEED)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(SEED)
        x = v1.placeholder("float32", [None, 6])
        w = v1.get_variable("w", [6, 3], use_resource=False)
        hidden = tf.nn.dropout(tf.tanh(x @ w), 0.3, seed=4)
        loss = tf.reduce_mean(hidden**2) + tf.while_loop(
            lambda i: i < 3.0, lambda i: i + 1.5, [0.0]
        )
        step = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        session.run(v1.global_variables_initializer())
        feed = {x: random.standard_normal((5, 6))}
        losses = [session.run([loss, step], feed)[0] for _ in range(4)]
        return {"losses": np.array(losses), "w": session.run(w), "device": _where(session, w)}


def _where(session: Any, variable: Any) -> Any:
    """Whether the variable lives where the side says, told by the placed graph."""
    from benchmarks.training.on_device import NotOnTheCardError, device_name

    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    meta = tf.compat.v1.RunMetadata()
    session.run(variable, options=options, run_metadata=meta)
    nodes = [node for graph in meta.partition_graphs for node in graph.node]
    devices = {node.device for node in nodes if node.op == "VariableV2"}
    if not all(device.endswith(device_name()) for device in devices) or not devices:
        raise NotOnTheCardError(f"the session's variable is on {devices}")
    return np.array(len(devices))


def _legacy_keras() -> Outputs:
    """tf_keras: its LSTM requests cuDNN in another way, through a defun."""
    import tf_keras

    tf_keras.utils.set_random_seed(SEED)
    of = tf_keras.layers
    model = tf_keras.Sequential(
        [of.Input((6, 4)), of.LSTM(5), of.BatchNormalization(), of.Dense(1)]
    )
    model.compile("adam", "mse")
    x = np.random.default_rng(SEED).standard_normal((12, 6, 4)).astype("float32")
    history = model.fit(x, x[:, :, 0].sum(1), batch_size=4, verbose=0, shuffle=False)
    weights = {f"weight {n}": tf.identity(v) for n, v in enumerate(model.variables)}
    return {"losses": np.array(history.history["loss"]), **weights}


TRAINING_OPERATIONS = (
    *(
        Operation(f"optimizer {name}", partial(_optimized, name, given))
        for name, given in _OPTIMIZERS.items()
    ),
    *(
        Operation(f"sparse gradient, {name}", partial(_sparse, name))
        for name in ("Adam", "Adagrad")
    ),
    Operation("tf.data, prefetched to the device", _pipeline),
    Operation("saved and loaded: checkpoint", _restored),
    Operation("variables assigned and scattered", _variables),
    Operation("random generator", _generator),
    Operation("a version-1 session", _in_a_session, on_host=True),
    Operation("tf_keras, LSTM", _legacy_keras),
)
