"""Keras models with functions and classes of the user: they come back, load, and go on."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import gpuconf

pytestmark = [pytest.mark.slow(seconds=40), pytest.mark.usefixtures("warm_programs")]

X = np.arange(8, dtype="float32").reshape(2, 4)
Y = X[:, :1]


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_a_model_of_the_users_own_parts(package: str) -> None:
    """A loss, metrics, activations named as Keras's, lambdas with what they read, a schedule, an
    initializer and a registered layer: the loaded model computes the same.
    """
    scale = 2.0

    def made() -> tuple[Any, ...]:
        keras: Any = importlib.import_module(package)

        class Schedule(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
            def __call__(self, _: Any) -> float:
                return 0.001

            def get_config(self) -> dict[str, Any]:
                return {}

        class Ones(keras.initializers.Initializer):  # type: ignore[misc]
            def __call__(self, shape: Any, **_: Any) -> Any:
                return np.ones(shape, "float32")

        class Error(keras.metrics.MeanSquaredError):  # type: ignore[misc]
            pass

        @keras.utils.register_keras_serializable(package="tests")
        class Increment(keras.layers.Layer):  # type: ignore[misc]
            def call(self, x: Any) -> Any:
                return x + 1

        def times(factor: float) -> Any:
            def relu(x: Any) -> Any:
                return x * factor

            return relu

        def loss(y: Any, predicted: Any) -> Any:
            return scale * (y - predicted) ** 2

        def seven(y: Any, predicted: Any) -> Any:
            return 0 * (y - predicted) + 7

        layers = [
            keras.Input((4,)),
            keras.layers.Lambda(lambda x: x / 10),
            keras.layers.Lambda(lambda x: np.float32(scale) * x),
            keras.layers.Dense(4, times(2), kernel_initializer=Ones()),
            keras.layers.Dense(4, times(3)),
            keras.layers.Dense(4, "relu"),
            Increment(),
            keras.layers.Dense(1, activation=lambda x: scale * x),
        ]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.SGD(Schedule()), loss, metrics=[seven, Error()])
        model.fit(X, Y, verbose=0)
        return model, *results_of(model)

    def results_of(model: Any) -> tuple[Any, ...]:
        return model.predict_on_batch(X), model.evaluate(X, Y, verbose=0)

    def continued(model: Any) -> tuple[Any, ...]:
        results = results_of(model)
        model.fit(X, Y, verbose=0)
        return model, int(model.optimizer.iterations), *results

    isolated = gpuconf.isolated(profile="cpu-only")
    model, predicted, measured = isolated(made)()
    assert measured[1] == 7
    for steps in (2, 3):
        model, count, *again = isolated(continued)(model)
        assert count == steps
        if steps == 2:
            np.testing.assert_allclose(again[0], predicted)
            np.testing.assert_allclose(again[1], measured, rtol=1e-5)


def test_what_cannot_go_with_a_model() -> None:
    """A function of its layer that cannot be pickled: the model comes back, as its file would."""

    def made() -> Any:
        import threading

        import keras

        lock = threading.Lock()
        layer = keras.layers.Dense(1)
        layer.not_saved = lambda x: (x, lock)
        return keras.Sequential([keras.Input((4,)), layer])

    isolated = gpuconf.isolated(profile="cpu-only")
    assert isolated(lambda model: model.count_params())(isolated(made)()) == 5
