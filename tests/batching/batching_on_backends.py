"""A program for ``test_batching_on_backends``: Keras on PyTorch or JAX, whole and in parts.

The model computes on the CPU; a layer of its own uses memory of the simulated GPU, so that the
framework's real allocator refuses large batches.  Reports what Keras gives and what we give.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

import gpuconf
import gpuconf.errors
from gpuconf import batching
from gpuconf.batching import evaluating, first_size, predicting
from gpuconf.batching.size import CardBatch, SizeKey
from gpuconf.batching.steps import training
from tests.batching.batching_models import BATCH, TAGS, WEIGHTS, WORDS, X, Y, crossentropy

layers = keras.layers
MIB = 2**20
BACKEND = keras.backend.backend()
held: list[int] = []  # samples of each call of the greedy layer that went well


def hold(samples: Any) -> Any:
    """Memory of the GPU, 16 MiB for each sample."""
    if BACKEND == "torch":
        import torch

        return torch.empty(samples * 16 * MIB, dtype=torch.uint8, device="cuda")
    import jax

    card = jax.devices("cuda")[0]
    with jax.ensure_compile_time_eval():  # now, and not as a part of what is traced
        return jax.device_put(np.empty(samples * 16 * MIB, np.uint8), card).block_until_ready()


class Greedy(keras.layers.Layer):  # type: ignore[misc]
    """Holds memory for each sample while it is called; on JAX, while the call is traced."""

    is_greedy = False
    supports_masking = True

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        if self.is_greedy:
            hold(inputs.shape[0])
            held.append(inputs.shape[0])
        return inputs

    def compute_output_spec(self, inputs: Any) -> Any:
        """Without a call, which Keras would make with a batch of its own."""
        return keras.KerasTensor(inputs.shape, inputs.dtype)


def dense(*more: Any, kind: Any = keras.Model, **options: Any) -> Any:
    """A classifier with a greedy layer."""
    hidden = inputs = keras.Input((6,))
    for each in (layers.Dense(8, activation="tanh"), Greedy(), *more, layers.Dense(3)):
        hidden = each(hidden)
    model = kind(inputs, hidden)
    model.compile(**{"optimizer": keras.optimizers.SGD(0.1), "loss": crossentropy(), **options})
    return model


def masked() -> Any:
    """Tags for words, where the loss is a mean over what the mask leaves."""
    inputs = keras.Input((5,), dtype="int32")
    hidden = Greedy()(layers.Embedding(9, 4, mask_zero=True)(inputs))
    model = keras.Model(inputs, layers.Dense(3)(hidden))
    model.compile(keras.optimizers.Adam(0.01), crossentropy(), metrics=["accuracy"])
    return model, {"x": WORDS, "y": TAGS}


def weighted() -> Any:
    """Sample weights, weighted metrics, penalties, validation; an optimizer with state."""
    model = dense(
        layers.Dense(4, kernel_regularizer="l2", activity_regularizer="l2"),
        optimizer=keras.optimizers.AdamW(0.01, clipnorm=0.5, weight_decay=0.1),
        weighted_metrics=["accuracy"],
        metrics=["accuracy"],
    )
    held_out = (X[:20], Y[:20], WEIGHTS[:20])
    return model, {"x": X, "y": Y, "sample_weight": WEIGHTS, "validation_data": held_out}


def summed() -> Any:
    """A loss that is a sum, and a penalty that counts once a batch."""
    part = layers.Dense(4, kernel_regularizer="l2")
    loss = crossentropy(reduction="sum")
    return dense(part, loss=loss, optimizer=keras.optimizers.SGD(0.003)), {"x": X, "y": Y}


class Unbuilt(keras.Model):  # type: ignore[misc]
    """Without input shapes, with statistics and seeds."""

    def __init__(self) -> None:
        super().__init__()
        self.greedy, self.hidden = Greedy(), layers.Dense(8, activation="tanh")
        self.norm, self.drop = layers.BatchNormalization(), layers.Dropout(0.4)
        self.out = layers.Dense(3)

    def call(self, inputs: Any, training: Any = False) -> Any:
        """The classifier."""
        hidden = self.norm(self.hidden(inputs), training=training)
        return self.out(self.drop(self.greedy(hidden), training=training))


def unbuilt() -> Any:
    """What looks at the batch as a whole, so that parts give something else."""
    model = Unbuilt()
    model.compile("sgd", crossentropy(), metrics=["accuracy"])
    return model, {"x": X, "y": Y}


CASES = {each.__name__: each for each in (weighted, masked, summed, unbuilt)}


def numbers(variables: Any) -> Any:
    """All of them, flat."""
    arrays = [keras.ops.convert_to_numpy(each) for each in keras.tree.flatten(variables)]
    return np.concatenate([np.ravel(each).astype("float64") for each in arrays])


def trained(name: str, fit: Any = gpuconf.fit) -> Any:
    """History, variables, and the model of a case."""
    keras.utils.set_random_seed(3)
    model, data = CASES[name]()
    history = fit(model, batch_size=BATCH, epochs=2, verbose=0, **data).history
    return history, numbers([*model.variables, *model.optimizer.variables]), model


def furthest(ours: Any, theirs: Any) -> float:
    """How far numbers are apart, relatively; names must be the same."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs), (list(ours), list(theirs))
        ours, theirs = list(ours.values()), list(theirs.values())
    one, other = np.asarray(ours, "float64"), np.asarray(theirs, "float64")
    return float(np.max(np.abs(one - other) / (1e-3 + np.abs(other))))


def greedy(is_greedy: bool) -> None:
    """From here on the layer uses memory, or does not; no size is remembered."""
    Greedy.is_greedy = is_greedy
    held.clear()
    batching.forget()


@contextlib.contextmanager
def small_card(is_real: bool) -> Iterator[None]:
    """Inside, eight samples fit: by the allocator's refusal, or as if that were known already."""
    greedy(is_real)
    if is_real:
        yield
        return
    known = lambda what, *_, **options: CardBatch(  # noqa: E731
        SizeKey(what, (), "", None), what=what, most=8, max_retries=options["max_retries"]
    )
    modules: list[Any] = [evaluating, predicting, training]
    for module in modules:
        module.size_for = known
    yield
    for module in modules:
        module.size_for = first_size.size_for


def compared(name: str, is_real: bool) -> Any:
    """Training and evaluation as Keras's, whole and where no more than eight samples fit."""
    greedy(False)
    history, weights, model = trained(name, keras.Model.fit)
    ours, our_weights, same = trained(name)
    data = CASES[name]()[1]
    given = {key: data[key] for key in ("x", "y", "sample_weight") if key in data}
    given |= {"verbose": 0, "return_dict": True, "batch_size": BATCH}
    asked: Any = {"x": data["x"], "batch_size": BATCH, "verbose": 0}
    logs, outputs = model.evaluate(**given), numbers(model.predict(**asked))
    our_logs = gpuconf.evaluate(same, **given)
    found: dict[str, Any] = {
        "history": furthest(ours, history),
        "weights": furthest(our_weights, weights),
        "evaluate": furthest(our_logs, logs),
        "predict": furthest(numbers(gpuconf.predict(same, **asked)), outputs),
    }
    with small_card(is_real):
        in_parts, weights_of_parts, again = trained(name)
        found["fit held"] = sorted(set(held))
    if name != "unbuilt":
        found["fit in parts"] = furthest(in_parts, ours)
        found["weights in parts"] = furthest(weights_of_parts, our_weights)
    again.set_weights(same.get_weights())  # of which JAX has compiled nothing for 16 samples
    with small_card(is_real):
        found["evaluate in parts"] = furthest(gpuconf.evaluate(again, **given), our_logs)
        found["predict in parts"] = furthest(numbers(gpuconf.predict(again, **asked)), outputs)
        found["held"] = sorted(set(held))
    return found


def automatic() -> Any:
    """An automatic size begins at 32 and grows to the data; nothing of the GPU is known."""
    greedy(False)
    ends: list[Any] = []
    note = keras.callbacks.LambdaCallback(on_predict_batch_end=lambda *_, **logs: ends.append(logs))
    return [list(gpuconf.predict(dense(), X, callbacks=[note], verbose=0).shape), len(ends)]


def generated() -> Any:
    """Batches of a generator keep their size, are cut if need be, and keep their order."""
    model = dense(metrics=["accuracy"])
    batches: Any = lambda: ((X[at : at + 20], Y[at : at + 20]) for at in (0, 20))  # noqa: E731
    greedy(False)
    logs = model.evaluate(X[:40], Y[:40], batch_size=20, verbose=0)
    outputs = model.predict(X[:40], verbose=0)
    with small_card(BACKEND == "torch"):
        return [
            furthest(gpuconf.evaluate(model, batches(), verbose=0), logs),
            furthest(gpuconf.predict(model, (x for x, _ in batches()), verbose=0), outputs),
            sorted(set(held)),
        ]


def not_even_one() -> Any:
    """The error is the framework's, and the model is as it was before the step that failed."""
    model = dense(optimizer=keras.optimizers.Adam(0.01), metrics=["accuracy"])
    gpuconf.fit(model, X, Y, batch_size=BATCH, verbose=0)
    before = numbers(model.trainable_variables)
    greedy(True)
    try:
        gpuconf.fit(model, X[:1].repeat(32, 0), Y[:32], batch_size=32, max_retries=0, verbose=0)
    except RuntimeError as error:
        return [type(error).__name__, bool((numbers(model.trainable_variables) == before).all())]
    return ["no error"]


class Torn(keras.optimizers.SGD):  # type: ignore[misc]
    """Holds more than the GPU has after it has written everything, so many times."""

    refusals = 0

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """The update, and a refusal."""
        super().apply(grads, trainable_variables)
        if Torn.refusals:
            Torn.refusals -= 1
            hold(64)


def torn_updates() -> Any:
    """An update that was refused is undone and done again once; or not, and all is as before."""
    greedy(False)
    found = []
    for Torn.refusals in (0, 1):
        keras.utils.set_random_seed(3)
        model = dense(optimizer=Torn(0.1, momentum=0.9))
        gpuconf.fit(model, X, Y, batch_size=BATCH, verbose=0)
        found.append(numbers([*model.variables, *model.optimizer.variables]))
    apart = furthest(found[1], found[0])
    if BACKEND == "jax":
        return [apart]
    before, Torn.refusals = numbers(model.weights), 99
    try:
        gpuconf.fit(model, X, Y, batch_size=BATCH, verbose=0)
    except RuntimeError as error:
        return [apart, type(error).__name__, furthest(numbers(model.weights), before)]
    return [apart]


class OwnSteps(keras.Model):  # type: ignore[misc]
    """Steps of the user's own."""

    def test_step(self, *args: Any) -> Any:
        """Keras's, under another name."""
        return super().test_step(*args)

    def train_step(self, *args: Any) -> Any:
        """The same."""
        return super().train_step(*args)


def own_steps() -> Any:
    """They are called as Keras calls them; a train_step in parts is refused."""
    model = dense(kind=OwnSteps, metrics=["accuracy"])
    greedy(False)
    gpuconf.fit(model, X, Y, verbose=0)
    logs = model.evaluate(X, Y, batch_size=BATCH, verbose=0)
    with small_card(BACKEND == "torch"):
        found = furthest(gpuconf.evaluate(model, X, Y, batch_size=BATCH, verbose=0), logs)
    try:
        gpuconf.fit(model, X, Y, card_batch_size=4)
    except gpuconf.errors.UsageError as error:
        return [found, str(error)[:17]]
    return [found]


if BACKEND == "torch":
    import torch

    torch.cuda.set_per_process_memory_fraction(128.25 * MIB / torch.cuda.mem_get_info()[1])
REAL, WANTED = (os.environ[name].split(",") for name in ("REAL", "CASES"))
values = {case: compared(case, case in REAL) for case in WANTED}
for check in (automatic, generated, own_steps, not_even_one, torn_updates):
    values[check.__name__] = check()
print("REPORT", json.dumps(values), flush=True)
