"""Data of every kind, callbacks, what is left on the model, and mistakes.

Run by ``test_in_tensorflow``.
"""

from __future__ import annotations

import copy
import gc
import importlib
import math
import pickle
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

from gpuconf import batching
from gpuconf.batching.steps.state import HeldValues, Reader
from gpuconf.errors import UsageError
from gpuconf.support.keras_api import nests
from tests.batching.batching_models import (
    BATCH,
    HALVES,
    IS_KERAS_3,
    SAMPLES,
    X,
    Y,
    arrays,
    assert_history,
    assert_same,
    compiled,
    dense,
    keras,
    layers,
    seeded,
    weights_of,
)


class Sequenced(
    keras.utils.PyDataset if hasattr(keras.utils, "PyDataset") else keras.utils.Sequence
):
    """Batches by number."""

    def __len__(self) -> int:
        return math.ceil(SAMPLES / BATCH)

    def __getitem__(self, number: int) -> Any:
        rows = slice(number * BATCH, number * BATCH + BATCH)
        return X[rows], Y[rows]


def generated() -> Iterator[Any]:
    """Batches without an end."""
    while True:
        for number in range(len(Sequenced())):
            yield Sequenced()[number]


def in_hdf5(folder: Path) -> Any:
    file = h5py.File(folder / f"{len(list(folder.iterdir()))}.h5", "w")
    return file.create_dataset("x", data=X.astype("float64"))


# What `test_batching_rows` reads, by whether its rows become tensors; and batches of their own.
KINDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "hdf5": lambda folder: {"x": in_hdf5(folder), "y": Y, "batch_size": BATCH},
    "sparse": lambda _: {"x": scipy.sparse.csr_matrix(X), "y": Y, "batch_size": BATCH},
    "tensors": lambda _: {"x": tf.constant(X), "y": tf.constant(Y), "batch_size": BATCH},
    "dataset": lambda _: {"x": tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH)},
    "sequence": lambda _: {"x": Sequenced()},
    "generator": lambda _: {"x": generated(), "steps": len(Sequenced())},
}


@pytest.fixture(scope="module")
def model() -> Any:
    """A classifier."""
    seeded()
    return built(dense())


@pytest.fixture(scope="module")
def known(model: Any) -> dict[str, Any]:
    """What Keras says of all the arrays, and of a training run with them."""
    start = weights_of(model)
    history = model.fit(**arrays(shuffle=False), verbose=0).history
    trained = weights_of(model)
    return {
        "start": start,
        "history": history,
        "trained": trained,
        "metrics": model.evaluate(X, Y, batch_size=BATCH, verbose=0),
        "outputs": model.predict(X, batch_size=BATCH, verbose=0),
    }


def built(network: Any) -> Any:
    """The model, whose optimizer has all its variables."""
    network.optimizer.build(network.trainable_variables)
    return network


def restart(model: Any, values: list[Any]) -> None:
    """The model's and the optimizer's variables as they were."""
    optimizer = model.optimizer.variables
    optimizer = optimizer() if callable(optimizer) else optimizer
    for variable, value in zip([*model.variables, *optimizer], values, strict=True):
        variable.assign(value)


@pytest.mark.parametrize("kind", KINDS)
def check_data_of_every_kind(kind: str, model: Any, known: Any, tmp_path: Path) -> None:
    """Trained, evaluated and predicted as the plain arrays are; batches stay as they come."""
    fitting, judging, predicting = (KINDS[kind](tmp_path) for _ in range(3))  # no generator twice
    restart(model, known["start"])
    options = {"epochs": 2, "steps_per_epoch": fitting.pop("steps", None), "shuffle": False}
    fitted = batching.fit(model, **fitting, **options, verbose=0)
    assert_same(weights_of(model), known["trained"], 2e-6)
    assert_history(fitted.history, known["history"])
    metrics = batching.evaluate(model, **judging, verbose=0)
    assert metrics == pytest.approx(known["metrics"], rel=2e-6)
    predicting.pop("y", None)
    outputs = batching.predict(model, **predicting, verbose=0)
    np.testing.assert_allclose(outputs, known["outputs"], rtol=2e-6)


def check_data_that_are_no_rectangles() -> None:
    """Ragged and sparse tensors from a dataset: whole, and in parts."""
    seeded()
    lengths = np.arange(SAMPLES) % 4
    ragged = tf.RaggedTensor.from_row_lengths(np.arange(lengths.sum()) % 9, lengths)
    padded = ragged.to_tensor(0, shape=(53, 5))
    sparse = tf.sparse.from_dense(X)
    if hasattr(keras.ops if hasattr(keras, "ops") else object, "convert_to_tensor"):
        inputs = keras.Input((6,), sparse=True)
        network = compiled(keras.Model(inputs, layers.Dense(3)(inputs)))
        dataset = tf.data.Dataset.from_tensor_slices((sparse, Y)).batch(BATCH)
        whole = network.evaluate(dataset, verbose=0)
        assert batching.evaluate(network, dataset, verbose=0) == pytest.approx(whole, rel=1e-6)
        batching.fit(network, dataset, card_batch_size=5, shuffle=False, verbose=0)
    for leaf, plain in ((ragged, padded), (sparse, X)):
        part = nests.part((leaf, Y), 16, 20)[0]
        back = part.to_tensor(0, shape=(4, 5)) if leaf is ragged else tf.sparse.to_dense(part)
        np.testing.assert_array_equal(back, plain[16:20])


def check_outputs_go_into_a_file(model: Any, known: Any, tmp_path: Path) -> None:
    """``out=``: written batch by batch, complete on disk, the same object given back."""
    restart(model, known["trained"])
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", "float32", (SAMPLES, 3))
    assert batching.predict(model, X, BATCH, verbose=0, out=out) is out
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), known["outputs"])


class Noted(keras.callbacks.Callback):
    """Which calls came, in order, with which numbers and names of values."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda *given, **named: self.calls.append(
            (name, *map(_told, (*given, *named.values())))
        )


def _told(value: Any) -> Any:
    return sorted(value) if isinstance(value, dict) else value


def check_callbacks_are_called_as_keras_calls_them(model: Any) -> None:
    """The same calls in the same order, with the same names of values, in all three."""
    for name, data in (
        ("fit", arrays(validation_split=0.3)),
        ("evaluate", {"x": X, "y": Y, "batch_size": BATCH}),
        ("predict", {"x": X, "batch_size": BATCH}),
    ):
        theirs, ours = Noted(), Noted()
        getattr(model, name)(**data, callbacks=[theirs], verbose=0)
        getattr(batching, name)(model, **data, callbacks=[ours], verbose=0)
        assert ours.calls == theirs.calls
        assert len(ours.calls) > 8


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras writes its files so
def check_callbacks_that_steer(model: Any, known: Any, tmp_path: Path) -> None:
    """Early stopping, a schedule of rates, a checkpoint, and a stop in the middle of an epoch."""
    results = []
    for fit in (model.fit, lambda **given: batching.fit(model, **given)):
        restart(model, known["start"])
        keras.utils.set_random_seed(5)
        file = tmp_path / f"{len(results)}.weights.h5"
        history = fit(
            **arrays(validation_data=(X[:20], Y[:20]), epochs=9),
            verbose=0,
            callbacks=[
                keras.callbacks.EarlyStopping("val_loss", patience=1, min_delta=0.02),
                keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
                keras.callbacks.ModelCheckpoint(file, save_weights_only=True),
            ],
        ).history
        model.load_weights(file)
        results.append((history, weights_of(model)))
    assert_history(results[1][0], results[0][0])
    assert_same(results[1][1], results[0][1], 2e-6)
    assert 1 < len(results[1][0]["loss"]) < 9
    model.optimizer.learning_rate = 0.1
    _check_stops(model, known)


def _check_stops(model: Any, known: Any) -> None:
    class Stops(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            assert set(logs) == {"accuracy", "loss"}
            self.model.stop_training = batch == 1

    restart(model, known["start"])
    before = int(model.optimizer.iterations.numpy())
    batching.fit(model, **arrays(), callbacks=[Stops()], verbose=0)
    assert int(model.optimizer.iterations.numpy()) - before == 2


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras writes its files so
def check_the_model_is_left_as_it_was(model: Any, known: Any, tmp_path: Path) -> None:
    """Keras trains it afterwards as before; it can be saved, copied, cloned and pickled."""
    restart(model, known["start"])
    batching.fit(model, **arrays(), card_batch_size=5, verbose=0)
    batching.evaluate(model, X, Y, verbose=0)
    batching.predict(model, X, verbose=0)
    restart(model, known["start"])
    model.fit(**arrays(shuffle=False), verbose=0)
    assert_same(weights_of(model), known["trained"])
    outputs = model.predict(X, verbose=0)
    model.save(tmp_path / "model.keras")
    copies = [
        keras.models.load_model(tmp_path / "model.keras"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
    ]
    for each in copies:
        np.testing.assert_array_equal(each.predict(X, verbose=0), outputs)
    batching.fit(copies[0], **arrays(epochs=1), verbose=0)
    np.testing.assert_array_equal(model.predict(X, verbose=0), outputs)


def check_what_is_kept_follows_compile_and_trainable() -> None:
    """Another loss, other metrics, frozen layers: each call is that of the model as it is."""
    seeded()
    network = dense()
    batching.fit(network, **arrays(epochs=1), verbose=0)
    batching.evaluate(network, X, Y, verbose=0)
    for options in ({"loss": "mse", "metrics": ["mae"]}, {"loss": "mae", "metrics": []}):
        network.compile(keras.optimizers.SGD(0.01), **options)
        built(network)
        data = {"x": X, "y": keras.utils.to_categorical(Y), "batch_size": BATCH, "verbose": 0}
        start = weights_of(network)
        theirs = network.fit(**data, shuffle=False).history
        restart(network, start)
        assert_history(batching.fit(network, **data, shuffle=False).history, theirs)
        theirs = network.evaluate(**data, return_dict=True)
        assert batching.evaluate(network, **data, return_dict=True) == pytest.approx(theirs)
    frozen = network.layers[0]
    frozen.trainable = False
    if not IS_KERAS_3:  # which goes by what was trained when it was compiled
        network.compile(keras.optimizers.SGD(0.01), "mae")
    before = _values(frozen)
    batching.fit(network, **data)
    assert_same(_values(frozen), before)


def _values(layer: Any) -> list[Any]:
    return [np.array(tf.convert_to_tensor(each)) for each in layer.weights]


class Counting(keras.callbacks.Callback):
    """How many variables are of the shape (7, 8), after the second batch."""

    count = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        if batch == 1:
            gc.collect()
            found = [each for each in gc.get_objects() if isinstance(each, tf.Variable)]
            self.count = sum(tuple(each.shape) == (7, 8) for each in found)


def check_own_steps_are_traced_again_after_compile() -> None:
    """What they read from the model is read again after ``compile``, with nothing else changed."""

    class Own(keras.Model):
        value = 1.0

        def train_step(self, data: Any) -> Any:  # noqa: ARG002  # Keras's signature
            return {"value": tf.constant(self.value)}

        test_step = train_step

    network = Own(inputs := keras.Input((6,)), layers.Dense(1)(inputs))
    optimizer = keras.optimizers.SGD(0.1)
    for value in (1.0, 2.0):
        network.value = value
        network.compile(optimizer)
        assert batching.fit(network, X, HALVES, verbose=0).history["value"] == [value]
        assert batching.evaluate(network, X, HALVES, verbose=0, return_dict=True)["value"] == value


def _seeing_xla(keras: Any) -> tuple[Any, Any, list[bool]]:
    """A layer, an optimizer, and for each of their traces whether XLA compiles it."""
    seen: list[bool] = []

    def look() -> None:
        seen.append(GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))

    class Seeing(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            look()
            return inputs

    class Optimizer(keras.optimizers.SGD):
        def update_step(self, *arguments: Any) -> None:
            look()
            super().update_step(*arguments)

    return Seeing(), Optimizer(0.1), seen


@pytest.mark.parametrize("name", ["keras", "tf_keras"])
def check_xla_compiles_no_step(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Our steps run without XLA in spite of ``jit_compile=True``, and Keras's own with it.

    So does the update of a Keras 2 optimizer, which is compiled by default on a GPU.  One line says
    so for a model of Keras 2, whose default is to compile none.
    """
    keras = importlib.import_module(name)

    class Own(keras.Model):
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    x, y = X[:BATCH], HALVES[:BATCH]
    for kind, is_scaled in ((keras.Model, False), (keras.Model, True), (Own, False)):
        layer, optimizer, seen = _seeing_xla(keras)
        if name == "tf_keras" and kind is not Own:
            optimizer.jit_compile = True  # its default where there is a GPU
        chosen = keras.mixed_precision.LossScaleOptimizer(optimizer) if is_scaled else optimizer
        inputs = keras.Input((6,))
        network = kind(inputs, keras.layers.Dense(1)(layer(inputs)))
        network.compile(chosen, "mse", jit_compile=True)
        seen.clear()
        batching.fit(network, x, y, verbose=0)
        if kind is keras.Model:
            batching.fit(network, x, y, card_batch_size=5, verbose=0)
        batching.evaluate(network, x, y, verbose=0)
        batching.predict(network, x, verbose=0)
        assert seen
        assert not any(seen)
        seen.clear()
        network.fit(x, y, verbose=0)
        assert all(seen), "Keras's own"
    shown = capsys.readouterr().err.count("run this model without XLA, in spite of its jit_compile")
    assert shown == (3 if name == "tf_keras" else 0)  # once a model


def check_memory_is_given_back() -> None:
    """Sums of gradients go with the training; the model and all that is kept go with it."""
    seeded()
    network = dense(inputs=7)  # a shape that nothing else here has
    x = np.repeat(X, 2, axis=1)[:, :7]
    counting = Counting()
    options = {"batch_size": BATCH, "card_batch_size": 5, "verbose": 0}
    batching.fit(network, x, Y, **options, callbacks=[counting])
    most = counting.count
    counting.on_train_batch_end(1)
    assert most == counting.count + 1  # the sums of the gradients
    freed: list[Any] = []
    layer = network.layers[0]
    weakref.finalize(layer, freed.append, True)
    del network, layer, counting
    keras.backend.clear_session()
    end = time.monotonic() + 60
    while not freed and time.monotonic() < end:  # on a busy machine, one collection was not enough
        gc.collect()
        time.sleep(0.05)
    assert freed


def addresses(values: Iterable[Any]) -> list[int]:
    """Where their memory begins."""
    views = [np.asarray(memoryview(value)) for value in values]
    return [int(view.__array_interface__["data"][0]) for view in views]


def check_many_variables_are_held_at_once_and_not_copied() -> None:
    """One call reads them all; their memory is shared until somebody writes, then put back."""
    model = dense(*(layers.Dense(8) for _ in range(20)))
    reader = Reader(model, model.variables)
    assert reader.read is Reader(model, model.variables).read
    held, values = HeldValues(reader), reader.read()
    assert addresses(values) == addresses(
        Reader(model, [each]).read()[0] for each in model.variables
    )
    before = weights_of(model)
    for variable in model.variables:
        variable.assign(tf.ones_like(variable))
    assert not set(addresses(values)) & set(addresses(reader.read()))
    held.put_back()
    assert_same(weights_of(model), before)


class Wrapped:
    """A variable around TensorFlow's, as Keras 3's is, which may put another one inside."""

    def __init__(self, value: float) -> None:
        self.inside = tf.Variable(value)

    @property
    def handle(self) -> Any:
        """Where the value lies."""
        return self.inside.handle

    @property
    def dtype(self) -> str:
        """Its name."""
        return "float32"


def check_a_variable_that_lies_elsewhere_is_read_there() -> None:
    """Not where it lay when the function that reads them was made."""
    model, variables = dense(), [Wrapped(float(each)) for each in range(20)]
    assert [float(value) for value in Reader(model, variables).read()] == list(range(20))
    variables[3].inside = tf.Variable(-1.0)
    assert float(Reader(model, variables).read()[3]) == -1.0


def check_classes_without_a_weight_count_once() -> None:
    """As Keras has it for arrays, of labels by number and one-hot; Keras 2 wants all classes."""
    weights = {0: 3.0} if IS_KERAS_3 else {0: 3.0, 1: 1.0, 2: 1.0}
    for labels, loss in ((Y, None), (np.eye(3, dtype="float32")[Y], "categorical_crossentropy")):
        found = []
        for fit, given in ((keras.Model.fit, weights), (batching.fit, {0: 3.0})):
            seeded()
            model = dense() if loss is None else dense(loss=loss)
            fit(model, X, labels, batch_size=BATCH, class_weight=given, verbose=0)
            found.append(weights_of(model))
        assert_same(*found)


def check_mistakes_are_told_and_nothing_is_done(model: Any) -> None:
    """One clear error each, with a hint, and the model is as before."""
    before = weights_of(model)
    wrong: dict[str, Callable[[], Any]] = {
        "not a Keras model": lambda: batching.evaluate(object(), X, Y),
        "is a layer": lambda: batching.predict(layers.Dense(1), X),
        "different numbers of samples: x 53, y 50": lambda: batching.fit(model, X, Y[:50]),
        "no samples": lambda: batching.predict(model, X[:0]),
        "fit's batch_size is 'auto'": lambda: batching.fit(model, X, Y, batch_size="auto"),
        "batch_size=0": lambda: batching.evaluate(model, X, Y, 0),
        "batch_size=-1": lambda: batching.fit(model, X, Y, card_batch_size=-1),
        "=1.0 is not a fraction": lambda: batching.fit(model, X, Y, validation_split=1.0),
        "samples are left": lambda: batching.fit(model, X[:1], Y[:1], validation_split=0.5),
        "max_retries=None": lambda: batching.predict(model, X, max_retries=None),
        "has dtype object": lambda: batching.predict(model, X.astype(object)),
        "requires arrays": lambda: batching.fit(model, generated(), validation_split=0.2),
        "out has shape": lambda: batching.predict(model, X, out=np.zeros((3, 3), "float32")),
    }
    for words, call in wrong.items():
        with pytest.raises(UsageError) as caught:
            call()
        assert words in str(caught.value)
        assert caught.value.hint
    assert_same(weights_of(model), before)
    for name in ("make_train_function", "make_test_function"):
        assert name not in vars(model)


def check_many_replicas_are_refused(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint is Keras's own method of that name."""
    strategy = SimpleNamespace(num_replicas_in_sync=2)
    monkeypatch.setattr(type(model), "distribute_strategy", strategy)
    for name, values in (("fit", (X, Y)), ("evaluate", (X, Y)), ("predict", (X,))):
        with pytest.raises(UsageError, match="a strategy with 2 replicas") as caught:
            getattr(batching, name)(model, *values)
        assert caught.value.hint == f"model.{name}(...), with Keras's own loop"
