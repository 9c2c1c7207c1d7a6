"""Whole small programs: optimizers, accumulation, input pipelines, saving, sessions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.training.lazily import keras, tf
from tests.training.operation_case import SEED, Operation, Outputs

_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {},
    "SGD, Nesterov": {"momentum": 0.9, "nesterov": True},
    "RMSprop": {},
    "RMSprop, centred": {"centered": True, "momentum": 0.5},
    "Adam": {},
    "Adam, amsgrad": {"amsgrad": True},
    "AdamW": {"weight_decay": 0.01},
    "Adadelta": {},
    "Adagrad": {},
    "Adamax": {},
    "Nadam": {},
    "Ftrl": {"l1_regularization_strength": 0.01},
    "Lion": {},
    "Lamb": {},
    "Adafactor": {},
    "Adam, moving average": {"use_ema": True, "ema_overwrite_frequency": 2},
    "Adam, accumulation": {"gradient_accumulation_steps": 2},
    "Adam, clipnorm": {"clipnorm": 0.1},
    "SGD, clipvalue": {"clipvalue": 0.01},
    "SGD, global_clipnorm": {"global_clipnorm": 0.1},
    "Adam, schedule": {},
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
    if name.endswith("schedule"):
        options = {"learning_rate": keras.optimizers.schedules.CosineDecay(0.01, 10)}
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


def _accumulated_by_hand() -> Outputs:
    model = _network()
    x, y = _data()
    optimizer = keras.optimizers.Adam(0.01)
    sums = [tf.Variable(tf.zeros(v.shape)) for v in model.trainable_variables]
    for start in range(0, 24, 6):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x[start : start + 6]) - y[start : start + 6]) ** 2)
        sources = [v.value for v in model.trainable_variables]
        for total, gradient in zip(sums, tape.gradient(loss, sources), strict=True):
            total.assign_add(gradient / 4)
    optimizer.apply([tf.identity(total) for total in sums], model.trainable_variables)
    return {"loss": loss, **_weights(model)}


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


def _fitted() -> Any:
    model = _network()
    model.compile("rmsprop", "mse", metrics=["mae"], jit_compile=False)
    model.fit(*_data(), batch_size=8, epochs=2, verbose=0, validation_split=0.25)
    return model


def _evaluated() -> Outputs:
    model, (x, y) = _fitted(), _data()
    return {
        "predictions": model.predict(x, batch_size=7, verbose=0),
        "evaluation": np.array(model.evaluate(x, y, batch_size=7, verbose=0)),
        "test batch": np.array(model.test_on_batch(x[:5], y[:5])),
        "train batch": np.array(model.train_on_batch(x[:5], y[:5])),
        **_weights(model),
    }


def _saved(what: str) -> Callable[[], Outputs]:
    def run() -> Outputs:
        model, (x, y) = _fitted(), _data()
        before = model(x)
        with tempfile.TemporaryDirectory() as folder:
            again = _loaded(what, model, os.path.join(folder, "saved"))
            after = again(x)
        assert np.array_equal(before.numpy(), after.numpy()), (
            "what was loaded is not what was saved"
        )
        if hasattr(again, "fit"):
            again.compile("adam", "mse")
            again.fit(x, y, verbose=0)
            return {"after": after, "trained on": again(x)}
        return {"after": after}

    return run


def _loaded(what: str, model: Any, path: str) -> Any:
    if what == "weights":
        model.save_weights(f"{path}.weights.h5")
        other = _network()
        other.load_weights(f"{path}.weights.h5")
        return other
    if what == "keras":
        model.save(f"{path}.keras")
        return keras.models.load_model(f"{path}.keras")
    if what == "checkpoint":
        tf.train.Checkpoint(weights=[v.value for v in model.variables]).write(path)
        other = _network()
        tf.train.Checkpoint(weights=[v.value for v in other.variables]).read(path)
        return other
    model.export(path, verbose=False)
    loaded = tf.saved_model.load(path)

    def serve(x: Any) -> Any:  # holds on to what was loaded
        return loaded.serve(x)

    return serve


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


def _legacy_keras(kind: str) -> Callable[[], Outputs]:
    """tf_keras: its LSTM asks for cuDNN in another way, through a defun."""

    def run() -> Outputs:
        import tf_keras

        tf_keras.utils.set_random_seed(SEED)
        model = tf_keras.Sequential(
            [
                tf_keras.layers.Input((6, 4)),
                getattr(tf_keras.layers, kind)(5),
                tf_keras.layers.BatchNormalization(),
                tf_keras.layers.Dense(1),
            ]
        )
        model.compile("adam", "mse")
        x = np.random.default_rng(SEED).standard_normal((12, 6, 4)).astype("float32")
        history = model.fit(x, x[:, :, 0].sum(1), batch_size=4, verbose=0, shuffle=False)
        weights = {f"weight {n}": tf.identity(v) for n, v in enumerate(model.variables)}
        return {"losses": np.array(history.history["loss"]), **weights}

    return run


TRAINING_OPERATIONS = (
    *(
        Operation(f"optimizer {name}", partial(_optimized, name, given))
        for name, given in _OPTIMIZERS.items()
    ),
    *(
        Operation(f"sparse gradient, {name}", partial(_sparse, name))
        for name in ("SGD", "Adam", "Adagrad", "Ftrl")
    ),
    Operation("gradients accumulated by hand", _accumulated_by_hand),
    Operation("tf.data, prefetched to the device", _pipeline),
    Operation("predict, evaluate, batches by hand", _evaluated),
    *(
        Operation(f"saved and loaded: {what}", _saved(what))
        for what in ("weights", "keras", "checkpoint", "SavedModel")
    ),
    Operation("variables assigned and scattered", _variables),
    Operation("random generator", _generator),
    Operation("a version-1 session", _in_a_session, on_host=True),
    Operation("tf_keras, LSTM", _legacy_keras("LSTM")),
    Operation("tf_keras, GRU", _legacy_keras("GRU")),
)
