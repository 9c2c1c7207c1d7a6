"""Out of memory at every place of a step: what is undone, what continues, what the user reads.

Run by ``test_in_tensorflow``. TensorFlow's own exception is raised inside its graph, at the n-th
call: in the forward pass, in a metric after it has counted, in the optimizer's update after it has
written a weight, in the data and in a callback.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gpuconf import batching
from gpuconf.batching.size import forget
from tests.batching.batching_models import (
    BATCH,
    HALVES,
    SAMPLES,
    X,
    assert_history,
    assert_same,
    keras,
    layers,
    seeded,
    weights_of,
)

FULL = (
    "OOM when allocating tensor with shape[16,8] and type float on /job:localhost/replica:0/task:0"
    "/device:GPU:0 by allocator GPU_0_bfc"
)
STEPS = 4  # of an epoch: three whole batches and one of five samples
OPTIONS: dict[str, Any] = {"x": X, "y": HALVES, "batch_size": BATCH, "epochs": 2, "verbose": 0}


class Faults:
    """At which call of which place it fails, counted from 1, and with what."""

    def __init__(self) -> None:
        self.planned: dict[str, set[int]] = {}
        self.calls: Counter[str] = Counter()
        self.error: Exception = tf.errors.ResourceExhaustedError(None, None, FULL)

    def plan(self, **calls: Any) -> None:
        """Forget the calls so far, and fail at these."""
        self.planned = {place: set(numbers) for place, numbers in calls.items()}
        self.calls.clear()
        self.error = tf.errors.ResourceExhaustedError(None, None, FULL)

    def passes(self, place: str) -> np.ndarray:
        """A call of this place."""
        self.calls[place] += 1
        if self.calls[place] in self.planned.get(place, ()):
            raise self.error
        return np.float32(0)


FAULTS = Faults()


def through(place: str, tensor: Any) -> Any:
    """The tensor, once that place has been passed, which is after it was computed."""
    passed = tf.numpy_function(lambda _: FAULTS.passes(place), [tensor], tf.float32)
    with tf.control_dependencies([passed]):
        return tf.identity(tensor)


@keras.utils.register_keras_serializable("faults")
class Passing(layers.Layer):
    """Fails in the forward pass."""

    def call(self, inputs: Any) -> Any:
        passed = through("forward", tf.stop_gradient(inputs))
        with tf.control_dependencies([passed]):
            return tf.identity(inputs)

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


class Counting(keras.metrics.Metric):
    """Samples and calls; fails after it has counted them."""

    def __init__(self, name: str = "counting") -> None:
        super().__init__(name=name)
        self.seen = self.add_weight(name="seen", initializer="zeros")

    def update_state(self, y_true: Any, _: Any, sample_weight: Any = None) -> None:  # noqa: ARG002
        self.seen.assign_add(tf.cast(tf.shape(y_true)[0], tf.float32))
        through("metric", tf.convert_to_tensor(self.seen))

    def result(self) -> Any:
        return tf.convert_to_tensor(self.seen)


class Failing(keras.optimizers.Adam):
    """Fails after a weight has been written."""

    def update_step(self, gradient: Any, variable: Any, *more: Any) -> None:
        super().update_step(gradient, variable, *more)
        through("update", tf.convert_to_tensor(variable))


class Trained:
    """A model that starts again as often as one likes, without being traced again."""

    def __init__(self, *more: Any, **options: Any) -> None:
        seeded()
        self.model = keras.Sequential(
            [
                keras.Input((6,)),
                layers.Dense(8, activation="tanh", kernel_regularizer="l2"),
                *more,
                Passing(),
                layers.Dense(1, activation="sigmoid"),
            ]
        )
        self.model.compile(
            Failing(0.01),
            "binary_crossentropy",
            metrics=[keras.metrics.AUC(name="auc"), Counting()],
            **options,
        )
        self.model.optimizer.build(self.model.trainable_variables)
        FAULTS.plan()
        if not options:  # else all but the weights is made in the first step
            self.model.evaluate(X[:2], HALVES[:2], verbose=0)
        self._start = self.state()

    def variables(self) -> list[Any]:
        """All that training changes: weights, seeds, statistics, metrics, the optimizer's."""
        optimizer = self.model.optimizer.variables
        optimizer = optimizer() if callable(optimizer) else optimizer
        metrics = [each for metric in self.model.metrics for each in metric.variables]
        found = [*self.model.variables, *optimizer, *metrics]
        return list({id(each): each for each in found}.values())

    def state(self) -> list[Any]:
        """Their values."""
        return [np.array(tf.convert_to_tensor(each)) for each in self.variables()]

    def anew(self, **faults: Any) -> Any:
        """The model as at first, and where it will fail."""
        for variable, value in zip(self.variables(), self._start, strict=True):
            variable.assign(value)
        forget()
        FAULTS.plan(**faults)
        keras.utils.set_random_seed(4)
        return self.model

    def fitted(self, **options: Any) -> tuple[dict[str, Any], list[Any]]:
        """The history, and the state in the end."""
        keras.utils.set_random_seed(4)
        history = batching.fit(self.model, **{**OPTIONS, **options}).history
        return history, self.state()


class States(keras.callbacks.Callback):
    """The state after each step."""

    def __init__(self, trained: Trained) -> None:
        super().__init__()
        self.trained = trained
        self.after = [trained.state()]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self.after[-1] = self.trained.state()  # metrics are reset

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        self.after.append(self.trained.state())


@pytest.fixture(scope="module")
def trained() -> Trained:
    """Without layers that look at the batch as a whole."""
    return Trained()


@pytest.fixture(scope="module")
def random() -> Trained:
    """With statistics that move, and seeds that go on."""
    return Trained(layers.BatchNormalization(), layers.Dropout(0.4))


@pytest.fixture(autouse=True)
def _no_faults_left() -> Iterator[None]:
    yield
    FAULTS.plan()


# Steps of two epochs: the first, one in the middle, the partial one, the last.
PLACES = [(place, step) for place in ("forward", "metric") for step in (1, 3, 4, 2 * STEPS)]


def check_the_user_s_error_leaves_the_step_undone(
    random: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bit for bit as before the step, whichever it is: weights, optimizer, metrics, BN, seeds."""
    random.anew()
    states = States(random)
    random.fitted(callbacks=[states])
    assert len(states.after) == 2 * STEPS + 1
    for place, step in PLACES:
        random.anew(**{place: [step]})
        with pytest.raises(tf.errors.OpError, match="OOM when allocating"):
            random.fitted(max_retries=0)
        before = states.after[step - 1]
        if step > STEPS:  # the last step's place in its epoch
            assert step == 2 * STEPS
        assert_same(random.state(), before)
        assert "still out of memory" in capsys.readouterr().err


def check_an_update_that_fails_is_undone_and_done_again(
    random: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a weight was written: history and all variables are bit for bit those without it."""
    random.anew()
    clean = random.fitted()
    for step in (1, 3, 4, 2 * STEPS):
        written = 6  # weights of this model; it fails after the second
        random.anew(update=[written * (step - 1) + 2])
        assert_same(random.fitted(), clean)
        assert "the old values kept in the host's RAM" in capsys.readouterr().err


def check_an_update_that_fails_twice_is_the_user_s_error(random: Trained) -> None:
    """Weights, optimizer, and the metrics of that step are as before it."""
    random.anew()
    states = States(random)
    random.fitted(callbacks=[states])
    for step in (1, 3):
        first = 6 * (step - 1) + 2
        random.anew(update=[first, first + 3])
        with pytest.raises(tf.errors.OpError, match="OOM when allocating"):
            random.fitted()
        assert_same(random.state(), states.after[step - 1])


def check_training_goes_on_in_parts(trained: Trained) -> None:
    """Wherever it fails, once or twice in a row, the curve and the weights are those without."""
    trained.anew()
    history, state = trained.fitted()
    for faults in (
        {"metric": [1, 2], "update": [9]},
        {"forward": [3, 4]},
        {"metric": [4]},  # the partial batch
        {"forward": [2 * STEPS]},
        {"forward": [1]},
    ):
        trained.anew(**faults)
        found, after = trained.fitted()
        assert_same(after, state, rtol=1e-5)
        assert_history(found, history, 1e-5)
        assert found["counting"] == [SAMPLES, SAMPLES]


def check_a_failure_in_validation_is_mended_there(trained: Trained) -> None:
    """The training never sees it: its weights are bit for bit those without; metrics are right."""
    held_out = {"validation_data": (X[:20], HALVES[:20]), "validation_batch_size": 16}
    trained.anew()
    history, state = trained.fitted(**held_out)
    trained.anew(forward=[STEPS + 1, STEPS + 4], metric=[2 * STEPS + 5])
    found, after = trained.fitted(**held_out)
    kept = len(trained.model.variables)
    assert_same(after[:kept], state[:kept])
    for name, values in history.items():
        exactly = not name.startswith("val_")
        np.testing.assert_allclose(found[name], values, rtol=0 if exactly else 1e-6, err_msg=name)


def check_evaluation_counts_each_sample_once(trained: Trained) -> None:
    """Metrics of one pass, AUC and counts exactly, wherever it fails, twice in a row too."""
    trained.anew()
    clean = batching.evaluate(trained.model, X, HALVES, BATCH, verbose=0, return_dict=True)
    before = weights_of(trained.model)
    for faults in (
        {"forward": [1]},
        {"metric": [2, 3]},
        {"metric": [4]},
        {"forward": [1], "metric": [3]},
    ):
        trained.anew(**faults)
        found = batching.evaluate(trained.model, X, HALVES, BATCH, verbose=0, return_dict=True)
        assert found["auc"] == clean["auc"]
        assert found["counting"] == SAMPLES
        assert found["loss"] == pytest.approx(clean["loss"], rel=1e-6)
        assert_same(weights_of(trained.model), before)


def check_prediction_writes_each_row_once(trained: Trained) -> None:
    """Outputs are those without a failure, in the same order."""
    trained.anew()
    clean = batching.predict(trained.model, X, BATCH, verbose=0)
    for faults in ([1], [2, 3], [4], [1, 2, 3]):
        trained.anew(forward=faults)
        np.testing.assert_allclose(
            batching.predict(trained.model, X, BATCH, verbose=0), clean, rtol=1e-6
        )


def check_a_failure_in_a_callback_comes_through(
    trained: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user's own error, with a diagnosis; steps that were done stay done."""

    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            if batch == 1:
                raise FAULTS.error

    trained.anew()
    states = States(trained)
    with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
        trained.fitted(callbacks=[states, Fails()])
    assert caught.value is FAULTS.error
    assert_same(trained.state(), states.after[2])
    assert "a smaller batch does not help there" in capsys.readouterr().err
    _trains_as_new(trained)


@pytest.mark.parametrize("is_host", [False, True])
def check_a_failure_in_the_data_comes_through(
    trained: Trained, is_host: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch that cannot be read is not halved; the host's RAM is not taken for the GPU's."""

    def batches() -> Iterator[Any]:
        for start in range(0, SAMPLES, BATCH):
            if start == 2 * BATCH:
                raise MemoryError("Unable to allocate 1 TiB") if is_host else FAULTS.error
            yield X[start : start + BATCH], HALVES[start : start + BATCH]

    trained.anew()
    states = States(trained)
    with pytest.raises(tf.errors.OpError):
        trained.fitted(x=batches(), y=None, batch_size=None, shuffle=False, callbacks=[states])
    assert_same(trained.state(), states.after[len(states.after) - 1])
    printed = capsys.readouterr().err
    assert ("no room in the host's RAM" in printed) is is_host
    assert "samples do not fit" not in printed
    _trains_as_new(trained)


def check_host_memory_is_not_cured_by_smaller_batches(
    trained: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    """A MemoryError inside the step comes as ResourceExhausted, and ends it at once."""
    for call in (
        trained.fitted,
        lambda: batching.evaluate(trained.model, X, HALVES, BATCH, verbose=0),
        lambda: batching.predict(trained.model, X, BATCH, verbose=0),
    ):
        trained.anew(forward=[2])
        FAULTS.error = MemoryError("Unable to allocate 1 TiB")
        with pytest.raises(tf.errors.ResourceExhaustedError):
            call()
        assert FAULTS.calls["forward"] == 2
        assert "the host ran out of RAM" in capsys.readouterr().err


def check_other_errors_are_not_retried(trained: Trained) -> None:
    """A mistake, also one that quotes a log, comes through, and the step is undone."""
    trained.anew()
    states = States(trained)
    trained.fitted(callbacks=[states])
    trained.anew(metric=[3])
    FAULTS.error = ZeroDivisionError("no such thing")
    with pytest.raises(tf.errors.OpError, match="no such thing"):
        trained.fitted()
    assert FAULTS.calls["metric"] == 3
    assert_same(trained.state(), states.after[2])


def check_not_even_one_sample(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it fails: halved to one sample, then the user's error, and nothing has changed."""
    trained.anew(forward=range(99))
    before = weights_of(trained.model)
    with pytest.raises(tf.errors.OpError, match="OOM"):
        trained.fitted()
    assert_same(weights_of(trained.model), before)
    assert FAULTS.calls["forward"] == 5  # 16, 8, 4, 2, 1
    assert "not even one sample fits" in capsys.readouterr().err


def check_a_train_step_of_one_s_own_is_not_split(capsys: pytest.CaptureFixture[str]) -> None:
    """Its error comes, with a diagnosis; and a size of its parts is refused."""

    class Own(keras.Model):
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    seeded()
    inputs = keras.Input((6,))
    model = Own(inputs, layers.Dense(1)(Passing()(inputs)))
    model.compile("sgd", "mse")
    FAULTS.plan(forward=[2])
    with pytest.raises(tf.errors.OpError, match="OOM"):
        batching.fit(model, **OPTIONS)
    assert "a smaller batch does not help there" in capsys.readouterr().err
    with pytest.raises(batching.fitting.UsageError, match="its own train_step"):
        batching.fit(model, **OPTIONS, card_batch_size=4)


def check_losses_that_parts_do_not_make(capsys: pytest.CaptureFixture[str]) -> None:
    """Sums and means mixed: fit raises the user's error and says why; evaluate says what it is."""
    seeded()
    inputs = keras.Input((6,))
    hidden = Passing()(inputs)
    model = keras.Model(inputs, [layers.Dense(1)(hidden), layers.Dense(1)(hidden)])
    losses = [keras.losses.MeanSquaredError(), keras.losses.MeanSquaredError(reduction="sum")]
    model.compile(keras.optimizers.SGD(0.001), losses)
    both = {**OPTIONS, "y": [HALVES, HALVES]}
    FAULTS.plan(forward=[2])
    with pytest.raises(tf.errors.OpError, match="OOM"):
        batching.fit(model, **both)
    assert "cannot be processed in parts: its losses are reduced by" in capsys.readouterr().err
    with pytest.raises(batching.fitting.UsageError, match="cannot be processed in parts"):
        batching.fit(model, **both, card_batch_size=4)
    FAULTS.plan(forward=[2])
    batching.evaluate(model, X, [HALVES, HALVES], BATCH, verbose=0)
    assert "mean of the parts' losses" in capsys.readouterr().err


def check_a_step_that_runs_eagerly() -> None:
    """Nothing is traced there; what the step that failed has made begins again, once."""
    history, state = Trained(run_eagerly=True).fitted(epochs=1)
    fresh = Trained(run_eagerly=True)
    FAULTS.plan(forward=[1], metric=[3], update=[10])
    found, after = fresh.fitted(epochs=1)
    assert_same(after, state, rtol=1e-5)
    assert_history(found, history, 1e-5)


def _trains_as_new(trained: Trained) -> None:
    """Nothing of ours is left over."""
    for name in ("make_train_function", "make_test_function"):
        assert name not in vars(trained.model)
    trained.anew()
    trained.fitted(epochs=1)
